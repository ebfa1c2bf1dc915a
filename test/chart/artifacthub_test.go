// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// hub is the prefix of the annotations that Artifact Hub reads.
const hub = "artifacthub.io/"

// categories are those that Artifact Hub has.
func categories() []string {
	return []string{"ai-machine-learning", "database", "integration-delivery", "monitoring-logging", "networking", "security", "storage", "streaming-messaging", "skip-prediction"}
}

// annotated reads an annotation that is YAML, and nothing that is not in its contract.
func annotated(t *testing.T, annotations map[string]string, name string, to any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(annotations[hub+name]), to); err != nil {
		t.Errorf("the annotation %s: %v", name, err)
	}
}

// TestArtifactHub: what the chart says for Artifact Hub has the form that Artifact Hub documents, and is true: its own lint cannot be had as a Go module. The definitions are those
// that the chart installs, in the version that is stored, and a release names its images.
func TestArtifactHub(t *testing.T) {
	chart, err := loader.LoadArchive(bytes.NewReader(released(t)["everynode-chart-1.2.3.tgz"]))
	if err != nil {
		t.Fatal(err)
	}
	annotations := chart.Metadata.Annotations
	for name, right := range map[string]bool{
		"license":    annotations[hub+"license"] == "Apache-2.0",
		"category":   slices.Contains(categories(), annotations[hub+"category"]),
		"operator":   annotations[hub+"operator"] == "true",
		"prerelease": annotations[hub+"prerelease"] == "false",
	} {
		if !right {
			t.Errorf("the annotation %s is %q", name, annotations[hub+name])
		}
	}
	var definitions []struct{ Kind, Version, Name, DisplayName, Description string }
	annotated(t, annotations, "crds", &definitions)
	said, installed := sets.New[string](), sets.New[string]()
	for _, d := range definitions {
		said.Insert(d.Name + " " + d.Kind + " " + d.Version)
		if d.DisplayName == "" || d.Description == "" {
			t.Errorf("%s has no name for people, or no description", d.Name)
		}
	}
	for _, o := range (release{values: everything}).objects(t) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &definition); err != nil {
			t.Fatal(err)
		}
		for _, v := range definition.Spec.Versions {
			if v.Storage {
				installed.Insert(definition.Name + " " + definition.Spec.Names.Kind + " " + v.Name)
			}
		}
	}
	if !said.Equal(installed) || len(said) != len(definitions) {
		t.Errorf("the annotation crds has %q, and the chart installs %q", sets.List(said), sets.List(installed))
	}
	var images []struct {
		Name, Image string
		Platforms   []string
	}
	annotated(t, annotations, "images", &images)
	var named []string
	for _, i := range images {
		named = append(named, i.Image)
		if i.Name == "" || !slices.Equal(i.Platforms, []string{"linux/amd64", "linux/arm64"}) {
			t.Errorf("the annotation images has %+v", i)
		}
	}
	if want := []string{"registry.example/a/everynode-manager:v1.2.3", "registry.example/a/everynode-agent:v1.2.3"}; !slices.Equal(named, want) {
		t.Errorf("the annotation images has %q, want %q", named, want)
	}
	for name := range annotations {
		if short, found := strings.CutPrefix(name, hub); !found || !slices.Contains([]string{"license", "category", "operator", "prerelease", "crds", "images"}, short) {
			t.Errorf("nothing checks the annotation %s", name)
		}
	}
}

// TestReadme: the chart of a release has the page that Artifact Hub and helm show readme show, and each of its values is one of the chart.
func TestReadme(t *testing.T) {
	chart, err := loader.LoadArchive(bytes.NewReader(released(t)["everynode-chart-1.2.3.tgz"]))
	if err != nil {
		t.Fatal(err)
	}
	values := sets.New[string]()
	for _, file := range chart.Files {
		if file.Name != "README.md" {
			continue
		}
		for _, match := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(string(file.Data), -1) {
			values.Insert(match[1])
		}
	}
	if want := sets.KeySet(chart.Values); !values.Equal(want) {
		t.Errorf("the README names the values %q, and the chart has %q", sets.List(values), sets.List(want))
	}
}

// TestArtifactHubRepository: what a release says of its repository has the fields that Artifact Hub documents, with the ID if there is one.
func TestArtifactHubRepository(t *testing.T) {
	const id = "7e5a7d5c-0000-4000-8000-000000000000"
	for _, want := range []string{"", id} {
		dist, says, err := releases(t, parts(), "ARTIFACTHUB_ID="+want)
		if err != nil {
			t.Fatalf("%v\n%s", err, says)
		}
		data, err := os.ReadFile(filepath.Join(dist, "artifacthub-repo.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var repository struct {
			RepositoryID string `json:"repositoryID"`
			Owners       []struct{ Name, Email string }
			Ignore       []struct{ Name, Version string }
		}
		if err := yaml.UnmarshalStrict(data, &repository); err != nil || repository.RepositoryID != want {
			t.Errorf("with the ID %q: %v\n%s", want, err, data)
		}
		for _, owner := range repository.Owners {
			if owner.Name == "" || !strings.Contains(owner.Email, "@") {
				t.Errorf("an owner is %+v", owner)
			}
		}
	}
}
