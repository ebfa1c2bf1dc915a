// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// bundleOf unpacks the bundle of a release.
func bundleOf(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	unzipped, err := gzip.NewReader(bytes.NewReader(released(t)["everynode-bundle-1.2.3.tgz"]))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// validators are those of the operator framework that have something to check here. The others are about catalogs of before (package manifests), objects that a
// bundle has not (operator groups), need a container tool and a registry (architectures), or moved out of the library (community operators).
func validators() validator.Validators {
	return validator.Validators{
		validation.BundleValidator, validation.ClusterServiceVersionValidator, validation.CustomResourceDefinitionValidator, validation.OperatorHubV2Validator,
		validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator, validation.ObjectValidator, validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator,
	}
}

// complaints returns the errors and warnings of all validators about the bundle in a directory.
func complaints(t *testing.T, dir string) (all []string) {
	t.Helper()
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return []string{err.Error()}
	}
	objects := []any{bundle, bundle.CSV, map[string]string{"k8s-version": "1.34"}}
	for _, o := range bundle.Objects {
		objects = append(objects, o)
	}
	for _, crd := range bundle.V1CRDs {
		objects = append(objects, crd)
	}
	results := validators().Validate(objects...)
	if len(results) < len(validators()) {
		t.Errorf("%d validators have checked %d objects", len(validators()), len(results))
	}
	for _, result := range results {
		for _, e := range slices.Concat(result.Errors, result.Warnings) {
			all = append(all, e.Error())
		}
	}
	return all
}

// TestBundle: the validators of the operator framework, which catalogs run, find nothing in the bundle of a release.
func TestBundle(t *testing.T) {
	for _, complaint := range complaints(t, bundleOf(t)) {
		t.Error(complaint)
	}
}

// TestBundleThatIsNotValid: the validators notice what would not be installed.
func TestBundleThatIsNotValid(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, replacement, want string
	}{
		"a CRD that the version does not own": {"everynode.clusterserviceversion.yaml", "kind: RolloutApproval\n", "kind: Other\n", "Kind=RolloutApproval"},
		"a name that has another version":     {"everynode.clusterserviceversion.yaml", "name: everynode.v1.2.3", "name: everynode", "csv.metadata.Name"},
		"an unknown category":                 {"everynode.clusterserviceversion.yaml", "Integration & Delivery", "Everything", "Everything"},
		"an icon of another type":             {"everynode.clusterserviceversion.yaml", "image/svg+xml", "image/other", "mediatype"},
		"a budget that holds up drains":       {"everynode-manager.poddisruptionbudget.yaml", "maxUnavailable: 1", "maxUnavailable: 0", "maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bundleOf(t)
			file := filepath.Join(dir, "manifests", c.file)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.ReplaceAll(string(data), c.old, c.replacement)
			if changed == string(data) {
				t.Fatalf("%s has no %q", c.file, c.old)
			}
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if all := complaints(t, dir); !strings.Contains(strings.Join(all, "\n"), c.want) {
				t.Errorf("the validators say %q, want something about %q", all, c.want)
			}
		})
	}
}

// notInBundle are the objects that the chart installs with the dialect policy, and the bundle does not: docs/install.md lists their kinds.
func notInBundle() []string {
	return []string{
		"ClusterRole everynode-manager-come-back-first", "ClusterRole everynode-manager-image-pulls", // for other dialects
		"FlowSchema everynode-manager", "FlowSchema everynode-manager-leader-election", "NetworkPolicy everynode-manager", "PriorityLevelConfiguration everynode-manager",
		"ValidatingAdmissionPolicy everynode-delete-protection", "ValidatingAdmissionPolicy everynode-rollout-approvals",
		"ValidatingAdmissionPolicyBinding everynode-delete-protection", "ValidatingAdmissionPolicyBinding everynode-rollout-approvals",
	}
}

// TestBundleIsTheChart: the bundle installs what the chart installs with the dialect policy and without agents, but for what is listed.
func TestBundleIsTheChart(t *testing.T) {
	bundle, err := manifests.GetBundleFromDir(bundleOf(t))
	if err != nil {
		t.Fatal(err)
	}
	install := bundle.CSV.Spec.InstallStrategy.StrategySpec
	if len(install.ClusterPermissions) != 1 || len(install.DeploymentSpecs) != 1 || len(install.Permissions) != 0 {
		t.Fatalf("the version installs %+v", install)
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, o := range bundle.Objects {
		objects[o.GetKind()+" "+o.GetName()] = o
	}
	delete(objects, v1alpha1.ClusterServiceVersionKind+" everynode.v1.2.3")
	const values = "{dialects: [policy], agent: {enabled: false}, image: {registry: registry.example/a, tag: v1.2.3}}"
	var missing []string
	for _, o := range (release{values: values}).objects(t) {
		name := o.GetKind() + " " + o.GetName()
		switch {
		case name == "Deployment everynode-manager":
			compareDeployments(t, o, install.DeploymentSpecs[0].Spec)
		case name == "ClusterRole everynode-manager":
			role := rbacv1.ClusterRole{}
			typed(t, o.Object, &role)
			if !reflect.DeepEqual(role.Rules, install.ClusterPermissions[0].Rules) || install.ClusterPermissions[0].ServiceAccountName != "everynode-manager" {
				t.Errorf("the permissions are %+v", install.ClusterPermissions[0])
			}
		case name == "ServiceAccount everynode-manager" || name == "ClusterRoleBinding everynode-manager": // OLM makes them
		case objects[name] == nil:
			missing = append(missing, name)
		default:
			for _, field := range []string{"rules", "spec", "subjects", "roleRef"} {
				if got, want := objects[name].Object[field], o.Object[field]; text(t, got) != text(t, want) {
					t.Errorf("%s has the %s %s, want %s", name, field, text(t, got), text(t, want))
				}
			}
			delete(objects, name)
		}
	}
	slices.Sort(missing)
	if !slices.Equal(missing, notInBundle()) {
		t.Errorf("the bundle lacks\n%s\nand may lack\n%s", strings.Join(missing, "\n"), strings.Join(notInBundle(), "\n"))
	}
	if len(objects) > 0 {
		t.Errorf("the chart does not install %q", slices.Sorted(maps.Keys(objects)))
	}
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range notInBundle() {
		if kind, _, _ := strings.Cut(name, " "); kind != "ClusterRole" && !bytes.Contains(page, []byte("`"+strings.TrimSuffix(kind, "Binding")+"`")) {
			t.Errorf("docs/install.md does not say that the bundle has no %s", kind)
		}
	}
}

// compareDeployments compares the Deployment of the bundle with that of the chart: OpenShift chooses the user.
func compareDeployments(t *testing.T, o *unstructured.Unstructured, got appsv1.DeploymentSpec) {
	t.Helper()
	deployment := appsv1.Deployment{}
	typed(t, o.Object, &deployment)
	security := deployment.Spec.Template.Spec.SecurityContext
	security.RunAsUser, security.RunAsGroup = nil, nil
	got.Template.Spec.Containers[0].ImagePullPolicy = deployment.Spec.Template.Spec.Containers[0].ImagePullPolicy
	if text(t, got) != text(t, deployment.Spec) {
		t.Errorf("the Deployment of the bundle is\n%s\nand of the chart\n%s", text(t, got), text(t, deployment.Spec))
	}
}

// typed converts an object.
func typed(t *testing.T, from map[string]any, to any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text(t, from)), to); err != nil {
		t.Fatal(err)
	}
}

// text is a value as JSON.
func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
