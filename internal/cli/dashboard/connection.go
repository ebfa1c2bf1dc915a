// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"path/filepath"

	"everynode.dev/everynode/internal/cli/options"
)

// connectionOf returns the flags with which a command of a shell works on the cluster of the dashboard, as the same user. Credentials are not among them.
func connectionOf(o *options.Options) (flags []string) {
	f := o.ConfigFlags
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	add("context", contextName(o)) // also the current one: it may be another one by then
	config := *f.KubeConfig
	if absolute, err := filepath.Abs(config); err == nil && config != "" {
		config = absolute // the shell may be in another directory
	}
	add("kubeconfig", config)
	add("cluster", *f.ClusterName)
	add("user", *f.AuthInfoName)
	add("server", *f.APIServer)
	add("as", *f.Impersonate)
	add("as-uid", *f.ImpersonateUID)
	for _, group := range *f.ImpersonateGroup {
		add("as-group", group)
	}
	return flags
}
