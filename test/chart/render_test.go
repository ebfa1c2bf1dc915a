// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

const (
	directory = "../../charts/everynode"
	home      = "everynode-system"
	notes     = "NOTES.txt"
	hook      = "helm.sh/hook"
)

// cluster is what templates can look up: definitions by name, with their labels.
type cluster map[string]map[string]string

// GetClientFor implements engine.ClientProvider.
func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion != "apiextensions.k8s.io/v1" || kind != "CustomResourceDefinition" {
		return nil, false, errors.New("the templates look up " + kind + " of " + apiVersion)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, false, err
	}
	var objects []runtime.Object
	for name, labels := range c {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return dynamicfake.NewSimpleDynamicClient(scheme, objects...).Resource(resource), false, nil
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// release is one rendering.
type release struct {
	values    string // YAML
	namespace string
	in        cluster
	of        *chart.Chart // nil has it loaded
}

// texts are the rendered templates by their names.
func (r release) texts(t *testing.T) (map[string]string, error) {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(r.values), &values); err != nil {
		t.Fatal(err)
	}
	if r.namespace == "" {
		r.namespace = home
	}
	c := r.of
	if c == nil {
		c = load(t)
	}
	options := common.ReleaseOptions{Name: "everynode", Namespace: r.namespace, IsInstall: true, Revision: 1}
	all, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.RenderWithClientProvider(c, all, r.in)
}

// objects are all objects of the release, by kind, namespace and name.
func (r release) objects(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	texts, err := r.texts(t)
	if err != nil {
		t.Fatalf("with the values\n%s\n%v", r.values, err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(name, ".yaml") {
			read(t, name, texts[name], all)
		}
	}
	return all
}

// read adds the objects of a file.
func read(t *testing.T, name, text string, to map[string]*unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetAnnotations()[hook] != "" {
			continue // it is not installed: see uninstall_test.go
		}
		if to[key(o)] != nil {
			t.Errorf("%s: %s is there twice", name, key(o))
		}
		to[key(o)] = o
	}
}

func key(o *unstructured.Unstructured) string {
	return path.Join(o.GetKind(), o.GetNamespace(), o.GetName())
}

// source are the objects of config/.
func source(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, from := range []fs.FS{config.Install, config.Manager, config.Kruise, config.Policy, config.Dialects, config.People, config.Agent} {
		names, err := fs.Glob(from, "*/*.yaml")
		if err != nil || len(names) == 0 {
			t.Fatalf("found %q: %v", names, err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(from, name)
			if err != nil {
				t.Fatal(err)
			}
			read(t, name, string(data), all)
		}
	}
	return all
}

// file reads a file of the chart.
func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(path.Join(directory, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
