// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"everynode.dev/everynode/test/harness"
)

// TestMixedManifests: what is installed is not all of one version. A Helm chart may leave definitions alone, and people replace or take back an image alone.
func TestMixedManifests(t *testing.T) {
	for _, test := range []struct {
		name string
		// what has the definitions, the rest of the manifests (with the webhooks), and the program.
		mix func(earlier, this version) (definitions, rest, manager version)
	}{
		{"EarlierDefinitions", func(earlier, this version) (_, _, _ version) { return earlier, this, this }},
		{"EarlierManifests", func(earlier, this version) (_, _, _ version) { return earlier, earlier, this }},
		{"LaterDefinitions", func(earlier, this version) (_, _, _ version) { return this, earlier, earlier }},
		{"LaterManifests", func(earlier, this version) (_, _, _ version) { return this, this, earlier }},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := begin(t)
			definitions, rest, manager := test.mix(p.earlier, p.this)
			p.installMixed(definitions, rest)
			if manager.name != p.earlier.name {
				p.replace(manager)
			}
			for _, k := range []kind{native(), advanced()} {
				t.Run(k.name, func(t *testing.T) { lives(t, p.in(t), k) })
			}
		})
	}
}

// installMixed applies the definitions of one version, and all else of another.
func (s *site) installMixed(definitions, rest version) {
	s.t.Helper()
	mixed := fstest.MapFS{}
	for i, part := range definitions.manifests {
		s.add(mixed, i, part, func(name string) bool { return isDefinition(name) })
	}
	for i, part := range rest.manifests {
		s.add(mixed, i, part, func(name string) bool { return !isDefinition(name) })
	}
	s.install(version{name: "a mixture", manifests: []fs.FS{mixed}})
}

func isDefinition(name string) bool { return strings.Contains(path.Base(name), "-crd-") }

// add adds the files of a part that are wanted. They keep the order of the parts.
func (s *site) add(to fstest.MapFS, part int, from fs.FS, wanted func(name string) bool) {
	s.t.Helper()
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !wanted(name) {
			return err
		}
		data, err := fs.ReadFile(from, name)
		to[fmt.Sprintf("%d/%s", part, name)] = &fstest.MapFile{Data: data, Mode: 0o600}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// lives takes a set through its life: create, roll, refuse, orphan, delete.
func lives(t *testing.T, p *site, k kind) {
	s := p.Space(t, allNodes)
	k.run(s)
	recorder := k.observe(s)
	generation := k.begin(t, s, harness.Image2)
	k.end(t, s, recorder, generation, harness.Image2)

	out, err := s.KubectlWith("", "patch", k.resource, set, "--type=merge", "--patch", `{"spec": {"selector": {"matchLabels": {"app": "other"}}}}`)
	if err == nil || !strings.Contains(out, "field is immutable") {
		t.Errorf("another selector is not refused: %v: %s", err, out)
	}
	if k.inPlace {
		s.Kubectl("get", "daemonsets.v1alpha1.apps.kruise.io", set)
	}

	before := harness.UIDs(s.View().Pods(set))
	s.Kubectl("delete", k.resource, set, "--cascade=orphan")
	s.Wait("the pods are orphans", func(v harness.View) error {
		if v.Set(set) != nil {
			return fmt.Errorf("the set is still there")
		}
		for _, pod := range v.AllPods() {
			if len(pod.OwnerReferences) != 0 || pod.DeletionTimestamp != nil || before[pod.Spec.NodeName] != pod.UID {
				return fmt.Errorf("pod %s is not an orphan that stays", pod.Name)
			}
		}
		return nil
	})
}
