// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"everynode.dev/everynode/localplane/internal/component"
)

const (
	program        = "localplane"
	managerProgram = "everynode-manager"
	nodeProgram    = "localplane-node"
	agentProgram   = "everynode-agent"
	imagesDir      = "images"
	// EnvProgram is the environment variable with the path of the program localplane.
	EnvProgram = "EVERYNODE_LOCALPLANE"
	// EnvKubernetes is the environment variable with the directory of kube-apiserver, kube-controller-manager and
	// kube-scheduler of another version of Kubernetes.
	EnvKubernetes = "EVERYNODE_KUBERNETES"
	rootModule    = "module everynode.dev/everynode"
)

// find returns the paths of the programs, or an error for the missing one.
func (p Programs) find(o Options) (Programs, error) {
	var err error
	if p.Localplane == "" {
		if p.Localplane, err = findLocalplane(); err != nil {
			return p, err
		}
	}
	if p.Localplane, err = executable(p.Localplane); err != nil {
		return p, err
	}
	beside := filepath.Dir(p.Localplane)
	if o.Manager.Count > 0 {
		if p.Manager, err = executable(cmp.Or(p.Manager, filepath.Join(beside, managerProgram))); err != nil {
			return p, err
		}
	}
	if p.Kubernetes, err = findKubernetes(p.Kubernetes); err != nil {
		return p, err
	}
	p.Node = cmp.Or(p.Node, filepath.Join(beside, nodeProgram))
	p.Agent = cmp.Or(p.Agent, filepath.Join(beside, agentProgram))
	p.Images = cmp.Or(p.Images, filepath.Join(beside, imagesDir))
	return p, nil
}

// findKubernetes returns the directory with the programs of another version of Kubernetes; empty for this version.
func findKubernetes(dir string) (string, error) {
	dir = cmp.Or(dir, os.Getenv(EnvKubernetes))
	if dir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", dir, err)
	}
	for _, name := range component.KubernetesPrograms() {
		if path := filepath.Join(dir, name); !startable(path) {
			return "", fmt.Errorf("there is no program %s: $%s is for planes of another version of Kubernetes with simulated nodes alone: build its programs with `make build-kubernetes KUBE_MINOR=1.36`, or unset it",
				path, EnvKubernetes)
		}
	}
	return dir, nil
}

func findLocalplane() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	if filepath.Base(self) == program {
		return self, nil
	}
	if path := os.Getenv(EnvProgram); path != "" {
		return path, nil
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", fmt.Errorf("looking for the program %s: %w: say where it is with $%s", program, err, EnvProgram)
	}
	return filepath.Join(root, "bin", program), nil
}

// repositoryRoot returns the directory of Everynode's own go.mod, at or above the working directory.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			first, _, _ := strings.Cut(string(raw), "\n")
			if strings.TrimSpace(first) == rootModule {
				return dir, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in Everynode's repository", start)
		}
	}
}

// executable returns the absolute path of an executable program.
func executable(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", path, err)
	}
	if !startable(path) {
		return "", fmt.Errorf("there is no program %s: build it with `make build` (and `make build-real` for real nodes)", path)
	}
	return path, nil
}

// startable reports whether a path is an executable file.
func startable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
