// SPDX-License-Identifier: Apache-2.0

// Command bundle writes the bundle from which the Operator Lifecycle Manager (OLM) installs Everynode, from config/ and the metadata of the chart.
//
//	bundle -version v1.2.3 [-registry registry.example/everynode] ROOT OUT
//
// ROOT is the directory of the repository. OUT gets manifests/ and metadata/, with one object in each file, as OLM reads them.
//
// A bundle may hold only some kinds of objects, and OLM replaces what the manager does for its webhooks itself. So the bundle has the dialect policy, which has no
// webhooks, and neither agents nor objects of kinds that OLM refuses: docs/install.md lists them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is an object of Kubernetes, or a part of one.
type object = map[string]any

// The name of the package in a catalog, which is also the name of the chart, and the namespace that the manifests name.
const (
	packageName = "everynode"
	namespace   = "everynode-system"
	manager     = "everynode-manager"
)

// sources returns the patterns of the files below config/ that the bundle is made of. The others are for other dialects, or of kinds that OLM refuses.
func sources() []string {
	return []string{"install/10-*.yaml", "manager/deployment.yaml", "manager/disruption.yaml", "policy/00-*.yaml", "policy/10-*.yaml", "people/approver.yaml", "people/nodes.yaml", "people/policies.yaml"}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("bundle", flag.ContinueOnError)
	version := flags.String("version", "", "the version of the release")
	registry := flags.String("registry", "", "the registry and the path before the names of images")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !strings.HasPrefix(*version, "v") || flags.NArg() != 2 {
		return errors.New("give -version v1.2.3, the directory of the repository, and the directory to write to")
	}
	root, out := flags.Arg(0), flags.Arg(1)
	b := &bundle{number: strings.TrimPrefix(*version, "v"), image: manager + ":" + *version, files: map[string]object{}}
	if *registry != "" {
		b.image = strings.TrimSuffix(*registry, "/") + "/" + b.image
	}
	if err := b.read(root); err != nil {
		return err
	}
	csv, err := b.serviceVersion()
	if err != nil {
		return err
	}
	b.files["manifests/"+packageName+".clusterserviceversion.yaml"] = csv
	b.files["metadata/annotations.yaml"] = b.annotations()
	return b.write(out)
}

// bundle is what is known about the bundle.
type bundle struct {
	// number is the version without the v, and image the name of the manager's image.
	number, image string
	// chart is Chart.yaml, icon the icon as SVG, and example a sample of a RolloutPolicy.
	chart, example object
	icon           []byte
	// rules are those of the manager's ClusterRole, and deployment is its Deployment.
	rules      []any
	deployment object
	// definitions are the CRDs, in the order of their names.
	definitions []object
	// files are the objects of the bundle, by file.
	files map[string]object
}

// read reads everything that the bundle is made of.
func (b *bundle) read(root string) error {
	for file, to := range map[string]*object{"charts/everynode/Chart.yaml": &b.chart, "docs/samples/policies/canary.yaml": &b.example} {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(data, to); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
	}
	var err error
	if b.icon, err = os.ReadFile(filepath.Join(root, "web", "src", "icon.svg")); err != nil {
		return err
	}
	for _, pattern := range sources() {
		files, err := filepath.Glob(filepath.Join(root, "config", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("config/%s names no file: %w", pattern, err)
		}
		for _, file := range files {
			if err := b.readFile(file); err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
		}
	}
	return nil
}

// readFile reads a file of config/.
func (b *bundle) readFile(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		obj := object{}
		if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
			return err
		}
		if err := b.add(obj); err != nil {
			return err
		}
	}
	return nil
}

// add puts an object of config/ where it belongs in a bundle.
func (b *bundle) add(obj object) error {
	kind, _ := obj["kind"].(string)
	metadata, _ := obj["metadata"].(object)
	name, _ := metadata["name"].(string)
	switch kind {
	case "ServiceAccount", "ClusterRoleBinding": // OLM makes those of the manager
		return nil
	case "Deployment":
		b.deployment = obj
		return nil
	case "ClusterRole":
		switch name {
		case manager:
			b.rules, _ = obj["rules"].([]any)
			return nil
		case manager + "-image-pulls", manager + "-come-back-first": // for other dialects
			return nil
		}
	case "CustomResourceDefinition":
		b.definitions = append(b.definitions, obj)
	case "Role", "RoleBinding", "PodDisruptionBudget":
		// With the permissions of a namespace in its ClusterServiceVersion, OLM would grant them in all namespaces that the manager serves. OLM chooses the
		// namespace of these objects.
		delete(metadata, "namespace")
	default:
		return fmt.Errorf("a bundle cannot hold %s %s", kind, name)
	}
	b.files["manifests/"+name+"."+strings.ToLower(kind)+".yaml"] = obj
	return nil
}

// annotations describe the bundle to the programs that make catalogs, and become the labels of its image.
func (b *bundle) annotations() object {
	const prefix = "operators.operatorframework.io.bundle."
	return object{"annotations": object{
		prefix + "mediatype.v1": "registry+v1", prefix + "manifests.v1": "manifests/", prefix + "metadata.v1": "metadata/",
		prefix + "package.v1": packageName, prefix + "channels.v1": b.channel(), prefix + "channel.default.v1": b.channel(),
	}}
}

// channel is the channel of a catalog in which the version is.
func (b *bundle) channel() string {
	if strings.Contains(b.number, "-") {
		return "candidate"
	}
	return "stable"
}

// write writes the files below out.
func (b *bundle) write(out string) error {
	for name, obj := range b.files {
		data, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // everyone may read it
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // everyone may read it
			return err
		}
	}
	return nil
}
