// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
)

// definitions are those of OpenKruise that the chart has.
func definitions() []string {
	return []string{"daemonsets.apps.kruise.io", "imagepulljobs.apps.kruise.io", "nodeimages.apps.kruise.io"}
}

// TestDefinitionsStay when the chart is uninstalled, for all Advanced DaemonSets and their pods would go with them; so do the namespaces in which people
// put pull secrets, and nothing else.
func TestDefinitionsStay(t *testing.T) {
	definition, namespace := 0, 0
	for name, o := range (release{values: everything}).objects(t) {
		kept := o.GetAnnotations()[keep] == "keep"
		switch o.GetKind() {
		case "CustomResourceDefinition":
			definition++
		case "Namespace":
			namespace++
		default:
			kept = !kept
		}
		if !kept {
			t.Errorf("%s: its annotations are %v", name, o.GetAnnotations())
		}
	}
	if policies := 2; definition != len(definitions())+policies || namespace != 2 {
		t.Errorf("there are %d definitions and %d namespaces", definition, namespace)
	}
}

// TestForeignDefinitionsAreLeftAlone: where even one of them is somebody else's, nothing is installed that is about them, and the notes say so.
func TestForeignDefinitionsAreLeftAlone(t *testing.T) {
	for _, foreign := range definitions() {
		r := release{in: cluster{foreign: {"app": "kruise"}}}
		texts, err := r.texts(t)
		if err != nil {
			t.Fatal(err)
		}
		for name, o := range r.objects(t) {
			if strings.Contains(name, "kruise") || strings.Contains(name, "agent") || o.GetKind() == "CustomResourceDefinition" && !strings.HasSuffix(name, ".everynode.dev") ||
				strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
				t.Errorf("beside %s it installs %s", foreign, name)
			}
		}
		if args := arguments(t, r.objects(t)["Deployment/"+home+"/everynode-manager"]); args[0] != "--dialects=native" {
			t.Errorf("beside %s the manager has the arguments %q", foreign, args)
		}
		said := texts["everynode/templates/"+notes]
		for _, want := range []string{"kruise IS OFF", foreign, "docs/migration.md", "no agents"} {
			if !strings.Contains(said, want) {
				t.Errorf("the notes do not say %q:\n%s", want, said)
			}
		}
	}
}

// TestOwnDefinitionsAreServed: those of an installation before are no reason to hold back.
func TestOwnDefinitionsAreServed(t *testing.T) {
	in := cluster{"deployments.example": nil}
	for _, name := range definitions() {
		in[name] = map[string]string{"everynode.dev/part-of": "everynode"}
	}
	r := release{in: in}
	if o := r.objects(t)["CustomResourceDefinition/daemonsets.apps.kruise.io"]; o == nil {
		t.Error("the definition is not installed")
	}
	texts, err := r.texts(t)
	if err != nil {
		t.Fatal(err)
	}
	if said := texts["everynode/templates/"+notes]; strings.Contains(said, "OFF") || !strings.Contains(said, "native,kruise") {
		t.Errorf("the notes are\n%s", said)
	}
}

// TestNothingLeftToServe is an error with the remedy, before anything is installed.
func TestNothingLeftToServe(t *testing.T) {
	_, err := release{values: "dialects: [kruise]", in: cluster{definitions()[0]: nil}}.texts(t)
	if err == nil || !strings.Contains(err.Error(), "nothing is left to serve") || !strings.Contains(err.Error(), "docs/migration.md") {
		t.Errorf("it says %v", err)
	}
}

// TestAgentsHaveTheirDefinition, also where nobody serves the dialect of OpenKruise: they are not ready before they have read their NodeImage.
func TestAgentsHaveTheirDefinition(t *testing.T) {
	all := release{values: "dialects: [native, openyurt]"}.objects(t)
	for name, want := range map[string]bool{
		"CustomResourceDefinition/nodeimages.apps.kruise.io": true, "Namespace/kruise-daemon-config": true, "DaemonSet/everynode-agents/everynode-agent": true,
		"CustomResourceDefinition/daemonsets.apps.kruise.io": false, "ValidatingWebhookConfiguration/everynode-validating": false,
	} {
		if got := all[name] != nil; got != want {
			t.Errorf("%s is there: %t, want %t", name, got, want)
		}
	}
}

// TestNotes say what to look at next, in words that do not need the files of the repository.
func TestNotes(t *testing.T) {
	const updater = "daemonpodupdater"
	for _, c := range []struct {
		release
		says, not []string
	}{
		{release{}, []string{"kubectl everynode doctor\n", "everynode-viewer", "kruise-daemon-config", "CRDs of apps.kruise.io and everynode.dev"}, []string{updater, "--manager-namespace", "roles.viewer"}},
		{release{values: everything}, []string{updater, "kubectl everynode adopt openyurt --dry-run"}, nil},
		{release{namespace: "tools"}, []string{"kubectl everynode doctor --manager-namespace tools\n"}, []string{home}},
		{release{values: "roles: {viewer: false}"}, []string{"everynode-viewer", "roles.viewer"}, nil},
		{release{in: cluster{definitions()[0]: nil}}, []string{"kubectl everynode adopt --dry-run"}, nil},
	} {
		texts, err := c.texts(t)
		if err != nil {
			t.Fatal(err)
		}
		said := texts["everynode/templates/"+notes]
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("the notes do not say %q:\n%s", want, said)
			}
		}
		for _, word := range c.not {
			if strings.Contains(said, word) {
				t.Errorf("the notes say %q:\n%s", word, said)
			}
		}
	}
}
