// SPDX-License-Identifier: Apache-2.0

// Package version implements the command that shows the version of the program and of the Kubernetes cluster.
package version

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/options"
)

// Versions is the output as JSON or YAML.
type Versions struct {
	Client   string `json:"client"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Server   string `json:"kubernetes,omitempty"`
}

// New returns the command version.
func New(o *options.Options) *cobra.Command {
	clientOnly := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program and of the Kubernetes cluster",
		Long: "Show the version of this program and of the Kubernetes cluster.\n\n" +
			"Use doctor to check what is installed in the cluster, and whether the versions match.\n\n" + options.ExitText,
		Example: "  # Both versions\n  kubectl everynode version\n\n  # Without asking a cluster\n  kubectl everynode version --client",
		Args:    options.Arguments(0),
		RunE: func(*cobra.Command, []string) error {
			v := Versions{Client: o.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			var err error
			if !clientOnly {
				v.Server, err = ofServer(o) // the version of the client is printed anyway
			}
			return errors.Join(o.Print(v, func(w io.Writer) error { return table(w, o, v) }), err)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Show only the version of this program.")
	return cmd
}

func ofServer(o *options.Options) (string, error) {
	clients, err := o.Clients()
	if err != nil {
		return "", err
	}
	server, err := clients.Discovery.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the version of the cluster: %w (--client does not contact the cluster)", err)
	}
	return server.GitVersion, nil
}

func table(w io.Writer, o *options.Options, v Versions) error {
	rows := [][]string{{options.Program, v.Client}}
	if v.Server != "" {
		rows = append(rows, []string{"Kubernetes", v.Server})
	}
	if o.Wide() {
		rows = append(rows, []string{"built with", v.Go + " for " + v.Platform})
	}
	return options.Columns(w, rows)
}
