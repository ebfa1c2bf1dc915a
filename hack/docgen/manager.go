// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"everynode.dev/everynode/internal/cli/dashboard"
	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/manager"
)

// flags lists the flags of everynode-manager, as its --help does.
func flags(*sources) (string, error) {
	command := manager.NewCommand("")
	table, err := flagTable(command.Flags())
	if err != nil {
		return "", err
	}
	inCluster := dashboard.NewInCluster(&options.Options{}, nil)
	more, err := flagTable(inCluster.Flags())
	if err != nil {
		return "", err
	}
	check := doctor.NewInCluster(&options.Options{})
	last, err := flagTable(check.Flags())
	return fmt.Sprintf("# Flags of everynode-manager\n\n%s\n\n%s\n## The dashboard in the cluster\n\n%s\n[The dashboard](../dashboard.md#in-the-cluster).\n\n%s"+
		"\n## The check of an installation\n\n%s\n[With Helm](../install.md#with-helm).\n\n%s", command.Long, table, inCluster.Long, more, check.Long, last), err
}

// flagTable has a line for each flag that a user may give.
func flagTable(set *pflag.FlagSet) (string, error) {
	var b strings.Builder
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	var err error
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		if f.Usage == "" {
			err = fmt.Errorf("flag --%s has no description", f.Name)
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(&b, "| %s%s | %s | %s |\n", spelled(f), placeholder(value), standard(f), cell(strings.Join(strings.Fields(usage), " ")))
	})
	return b.String(), err
}

// spelled is a flag as a user may write it.
func spelled(f *pflag.Flag) string {
	if f.Shorthand == "" || f.ShorthandDeprecated != "" {
		return "`--" + f.Name + "`"
	}
	return "`-" + f.Shorthand + "`, `--" + f.Name + "`"
}

// placeholder is the kind of value that a flag takes, if any.
func placeholder(kind string) string {
	if kind == "" {
		return ""
	}
	return " " + kind
}

// standard is the value that a flag has when it is not given.
func standard(f *pflag.Flag) string {
	if f.DefValue == "" || f.DefValue == "[]" {
		return ""
	}
	return "`" + cell(strings.Trim(f.DefValue, "[]")) + "`"
}

// metricsPage lists the metrics of the manager's own.
func metricsPage(*sources) (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics of everynode-manager\n\nIn addition to these, the manager serves the metrics of controller-runtime, client-go and the Go runtime.\n" +
		"Metrics marked with * carry the labels `namespace` and `name` too when the manager runs with `--metrics-per-set`.\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range metrics.Declared() {
		if d.Help == "" {
			return "", fmt.Errorf("metric %s has no description", d.Name)
		}
		mark := ""
		if d.PerSet {
			mark = " *"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", d.Name, mark, d.Type, strings.Join(d.Labels, ", "), cell(d.Help))
	}
	return b.String(), nil
}
