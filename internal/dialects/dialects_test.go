// SPDX-License-Identifier: Apache-2.0

package dialects

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rbac"
)

func built(names ...string) []dialect.Dialect {
	return Build(Served(names), func(r *dialect.Registration) dialect.Setting {
		return dialect.Setting{Namespace: "ours", MayWrite: func() bool { return r.Name == Native }}
	})
}

// One object has one decision, so dialects with the same objects are one dialect where they are served together.
func TestDialectsOfTheSameObjectsAreOne(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{[]string{Native}, []string{Native}},
		{[]string{OpenYurt}, []string{OpenYurt}},
		{[]string{OpenYurt, Native}, []string{Native}},
		{Names(), []string{Native, Kruise}},
		{[]string{OpenYurt, Kruise}, []string{Kruise, OpenYurt}},
		{[]string{"policy"}, []string{"policy"}},
		{[]string{"policy", OpenYurt}, []string{OpenYurt}},
	} {
		var got []string
		for _, d := range built(c.names...) {
			got = append(got, d.Source.Dialect)
			if d.Source.Digest == nil || d.StatusPatch == nil || d.Texts == nil || d.MayWrite == nil {
				t.Errorf("%v: %s is not complete", c.names, d.Source.Dialect)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.names, got, c.want)
		}
	}
}

func TestExtendedDialectAsksBothGuards(t *testing.T) {
	d := built(Native, OpenYurt)[0]
	if !d.MayWrite() || d.MayAnnotate == nil || d.MayAnnotate() || d.Announce == nil {
		t.Errorf("with openyurt, native does not ask its own guard for pods and that of openyurt for annotations: %+v", d)
	}
	if plain := built(Native)[0]; plain.MayAnnotate != nil || plain.Announce != nil || plain.Texts.AnnounceFailed != "" {
		t.Errorf("without openyurt, native reads annotations of OpenYurt: %+v", plain)
	}
	if !d.Source.Ignore("ours", "everynode-probe") || d.Source.Ignore("ours", "x") || d.Source.Ignore("x", "everynode-probe") {
		t.Error("the probe, and only the probe, is not reconciled")
	}
}

func TestServings(t *testing.T) {
	together, alone := Servings(Names()), Servings([]string{OpenYurt})
	for got, want := range map[string]string{
		together[Native]:   "keeps the pods of DaemonSets of apps/v1, and reads the annotations of OpenYurt on them, and follows rollout policies, as every dialect does",
		together[Kruise]:   "keeps the pods of DaemonSets of apps.kruise.io, and pulls images",
		together[OpenYurt]: "is part of the dialect native: one decision for each DaemonSet",
		alone[OpenYurt]:    "reads the annotations of OpenYurt on DaemonSets of apps/v1, next to the controller that keeps their pods",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The list is all that a new dialect needs outside of its package, so a registration has to be complete.
func TestRegistrationsAreComplete(t *testing.T) {
	if got := strings.Join(Defaults(), " "); got != "native kruise" {
		t.Errorf("by default %s", got)
	}
	for _, r := range All() {
		if r.Name == "" || r.Does == "" || r.New == nil || (r.Extend == nil) != (r.Adds == "") {
			t.Errorf("%s: %+v", r.Name, r)
		}
		if r.Peer != nil && (r.Peer.Dialect != r.Name || r.Peer.Name == "" || r.Peer.Namespace == "" || len(r.Peer.Leases) == 0 || r.Peer.Remedy == "") {
			t.Errorf("%s: %+v", r.Name, r.Peer)
		}
		for _, role := range r.Roles {
			if role.Program != rbac.Manager {
				t.Errorf("%s has a role for %s", r.Name, role.Program)
			}
		}
		if _, err := os.Stat(filepath.Join("..", "..", "docs", "dialects", pageOf(r.Name))); err != nil {
			t.Errorf("%s has no page: %v", r.Name, err)
		}
	}
}

// pageOf is the name of the page of a dialect: that of OpenKruise is called after what it serves.
func pageOf(name string) string {
	if name == Kruise {
		return "advanced.md"
	}
	return name + ".md"
}
