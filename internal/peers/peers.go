// SPDX-License-Identifier: Apache-2.0

// Package peers describes the managers of other projects that do the work of one of our dialects: by which lease each of them is found, and
// how it is stopped. The manager uses it to write nothing while such a manager is active, and the command line to report it.
package peers

// Manager is a manager that does the work of a dialect where it runs.
type Manager struct {
	// Name is how it is called in a sentence, Dialect the name of the dialect.
	Name, Dialect string
	// Namespace and Leases name the leases of which its leader holds one: by its own default first, then as its chart has it.
	Namespace string
	Leases    []string
	// Controller has the names of the one of its controllers that does the work, where that can be switched off alone.
	Controller []string
	// Remedy is how it is kept from the work.
	Remedy string
}

// OpenKruise is OpenKruise's own manager.
func OpenKruise() Manager {
	return Manager{
		Name: "OpenKruise's own manager", Dialect: "kruise", Namespace: "kruise-system", Leases: []string{"kruise-manager"},
		Remedy: "scale that manager to zero",
	}
}

// OpenYurt is yurt-manager. Its lease is named in openyurtio/openyurt, cmd/yurt-manager/app/options/generic.go, and since 1.4 otherwise by the
// value leaderElectResourceName of its chart; its controller is named in cmd/yurt-manager/names, and before 1.4 by the shorter name.
func OpenYurt() Manager {
	return Manager{
		Name: "OpenYurt's own yurt-manager", Dialect: "openyurt", Namespace: "kube-system", Leases: []string{"yurt-manager", "cloud-yurt-manager"},
		Controller: []string{"daemonpodupdater", "daemon-pod-updater-controller"},
		Remedy:     "switch its controller daemonpodupdater off (kubectl everynode adopt openyurt)",
	}
}
