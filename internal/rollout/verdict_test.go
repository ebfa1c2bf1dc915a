// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestVerdictTexts(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	names, sentences := map[string]bool{}, map[string]bool{}
	for _, k := range VerdictKinds() {
		name, sentence := k.String(), k.Sentence()
		if !kebab.MatchString(name) || names[name] {
			t.Errorf("verdict %d: name %q is taken or not in kebab-case", k, name)
		}
		if sentence == "" || sentences[sentence] || strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: sentence %q is missing, taken or ends with a full stop", name, sentence)
		}
		if k.Acts() && k.Waits() {
			t.Errorf("%s both acts and waits", name)
		}
		names[name], sentences[sentence] = true, true
	}
	if got := VerdictKind(200).String(); got != "verdict-200" {
		t.Errorf("an unknown verdict is called %q", got)
	}
	if !Creating.Acts() || !FinishingInPlace.Acts() || UpToDate.Acts() || Stays.Acts() || WaitAvailable.Acts() {
		t.Error("Acts is wrong at its ends")
	}
	if !WaitAvailable.Waits() || !Blocked.Waits() || FinishingInPlace.Waits() || UpToDate.Waits() {
		t.Error("Waits is wrong at its ends")
	}
}

// TestTablesOfVerdicts: the columns of the table and the tables of groups and causes agree.
func TestTablesOfVerdicts(t *testing.T) {
	for _, k := range VerdictKinds() {
		if got := k.Alert() == AlertStuck; got != k.Continues() {
			t.Errorf("%s goes on without a person: %t, and the alert about a rollout without progress is for it: %t", k, k.Continues(), got)
		}
		if k.Waits() && !k.Group().Waiting() || k.Acts() && k.Group().Tone() != ToneActing {
			t.Errorf("%s is in group %d, which does not fit", k, k.Group())
		}
		if k.Replaces() && !k.Acts() {
			t.Errorf("%s replaces a pod and does not act", k)
		}
		if k.OfPolicy() && k.OfUpdate() != (k == WaitPace) {
			t.Errorf("%s: a hold of a policy also applies to nodes that are not updated now, only the pace does not", k)
		}
	}
	for kind, want := range map[VerdictKind][4]bool{ // OfUpdate, Replaces, StartsUpdate, AwaitsPod
		Recreating: {true, true, true, false}, Surging: {true, true, true, false}, UpdatingInPlace: {true, true, true, false}, FinishingSurge: {true, true, false, false},
		FinishingInPlace: {true, false, false, false}, WaitInPlace: {true, false, false, true}, WaitAvailable: {false, false, false, true}, Creating: {},
	} {
		if got := [4]bool{kind.OfUpdate(), kind.Replaces(), kind.StartsUpdate(), kind.AwaitsPod()}; got != want {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
}

// TestPackageCommentNamesAllVerdicts keeps the verdict table complete, and free of names that do not exist.
func TestPackageCommentNamesAllVerdicts(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), "# Verdicts")
	if !found {
		t.Fatal("doc.go has no section Verdicts")
	}
	known := map[string]bool{}
	for _, k := range VerdictKinds() {
		known[k.String()] = true
		if !strings.Contains(table, k.String()) {
			t.Errorf("the table does not mention %s", k)
		}
	}
	for _, name := range regexp.MustCompile(`\b(wait|removing|replacing|finishing)-[a-z-]+[a-z]\b`).FindAllString(table, -1) {
		if !known[name] {
			t.Errorf("the table mentions %s, which does not exist", name)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{MustRun.String(), "must-run"}, {MayStay.String(), "may-stay"}, {MustLeave.String(), "must-leave"}, {NotKnown.String(), "not-known"},
		{RollingUpdate.String(), "RollingUpdate"}, {OnDelete.String(), "OnDelete"}, {Strategy(0).String(), "unknown"},
		{Running.String(), "Running"}, {Succeeded.String(), "Succeeded"}, {Failed.String(), "Failed"}, {Phase(99).String(), "Pending"},
		{Create.String(), "create"}, {Delete.String(), "delete"}, {Prepare.String(), "prepare"}, {Restore.String(), "restore"},
		{Mark.String(), "mark"}, {Patch.String(), "patch"}, {Unmark.String(), "unmark"},
		{HookNone.String(), "none"}, {HookArmed.String(), "armed"}, {HookWaiting.String(), "waiting"}, {HookReleased.String(), "released"},
		{InPlaceNone.String(), "none"}, {InPlaceMarked.String(), "marked"}, {InPlacePatched.String(), "patched"}, {InPlaceArrived.String(), "arrived"}, {ActionKind(0).String(), "unknown"},
		{InPlaceAnnounced.String(), "announced"}, {Resume.String(), "resume"},
		{FoundFailedPod.String(), "found-failed-pod"}, {FoundSucceededPod.String(), "found-succeeded-pod"}, {NoteKind(0).String(), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestDetailTexts(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	names, sentences := map[string]bool{}, map[string]bool{}
	for d := NoDetail + 1; int(d) < detailCount; d++ {
		name, sentence := d.String(), d.Sentence()
		if !kebab.MatchString(name) || names[name] {
			t.Errorf("detail %d: name %q is taken or not in kebab-case", d, name)
		}
		if sentence == "" || sentences[sentence] || strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: sentence %q is missing, taken or ends with a full stop", name, sentence)
		}
		names[name], sentences[sentence] = true, true
	}
	if NoDetail.String() != "" || NoDetail.Sentence() != "" || Detail(200).String() != "detail-200" {
		t.Errorf("no detail is %q, an unknown one %q", NoDetail, Detail(200))
	}
}
