// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"embed"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"everynode.dev/everynode/config"
)

// TestWhatPeopleMay: they see what is theirs, and change daemon sets; images on nodes are not among it, for the reason above.
func TestWhatPeopleMay(t *testing.T) {
	var all []string
	for _, name := range []string{"people/nodes.yaml", "people/roles.yaml"} {
		data, err := config.People.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = slices.AppendSeq(all, strings.SplitSeq(string(data), "\n---\n"))
	}
	var got []string
	for _, text := range all {
		d := document{}
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		for _, rule := range d.Rules {
			got = append(got, strings.Join([]string{
				strings.Join(slices.Sorted(maps.Keys(d.Labels)), ","), strings.Join(rule.APIGroups, ","), strings.Join(rule.Resources, ","), strings.Join(rule.Verbs, ","),
			}, " "))
		}
	}
	want := []string{
		"  nodes get,list,watch", // added to no role: whoever may see nodes is told so by name
		" apps.kruise.io nodeimages,nodeimages/status get,list,watch",
		"rbac.authorization.k8s.io/aggregate-to-view apps.kruise.io daemonsets,daemonsets/status,imagepulljobs,imagepulljobs/status get,list,watch",
		"rbac.authorization.k8s.io/aggregate-to-edit apps.kruise.io daemonsets create,delete,deletecollection,patch,update",
	}
	if !slices.Equal(got, want) {
		t.Errorf("people may\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// document is one role, or binding of one.
type document struct {
	rbacv1.ClusterRole `json:",inline"`
	RoleRef            rbacv1.RoleRef   `json:"roleRef"`
	Subjects           []rbacv1.Subject `json:"subjects"`
}

// documents are all roles and bindings that are shipped.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	for _, from := range []embed.FS{config.Install, config.Kruise, config.Policy, config.Dialects, config.Agent} {
		names, err := fs.Glob(from, "*/*.yaml")
		if err != nil || len(names) == 0 {
			t.Fatalf("found %q: %v", names, err)
		}
		for _, name := range names {
			data, err := from.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
			for {
				d := document{}
				if err := reader.Decode(&d); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if strings.HasPrefix(d.APIVersion, rbacv1.GroupName) {
					all = append(all, d)
				}
			}
		}
	}
	return all
}

func names(rule *rbacv1.PolicyRule, group, resource, verb string) bool {
	in := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	return in(rule.APIGroups, group) && in(rule.Resources, resource) && in(rule.Verbs, verb)
}

// TestWhoMayHaveImagesPulled: an image that was pulled ahead can be used without credentials for it. So nobody gets that right from what is
// shipped but the manager itself, not even by a role that is added to those of all users.
func TestWhoMayHaveImagesPulled(t *testing.T) {
	may := map[string]bool{}
	for _, d := range documents(t) {
		for label := range d.Labels {
			if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
				t.Errorf("%s is added to the role of others", d.Name)
			}
		}
		if d.AggregationRule != nil {
			t.Errorf("%s takes in the rights of others", d.Name)
		}
		for i := range d.Rules {
			for _, verb := range []string{"create", "update", "patch"} {
				for _, resource := range []string{"imagepulljobs", "nodeimages"} {
					if names(&d.Rules[i], "apps.kruise.io", resource, verb) {
						may[d.Name] = true
					}
				}
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(may)), []string{"everynode-manager-image-pulls", "everynode-manager-kruise"}; !slices.Equal(got, want) {
		t.Errorf("the right is in the roles %q, want %q", got, want)
	}
	for _, d := range documents(t) {
		for _, subject := range d.Subjects {
			if may[d.RoleRef.Name] && (subject.Kind != "ServiceAccount" || subject.Name != "everynode-manager") {
				t.Errorf("%s gives %s to %s %s", d.Name, d.RoleRef.Name, subject.Kind, subject.Name)
			}
		}
	}
}
