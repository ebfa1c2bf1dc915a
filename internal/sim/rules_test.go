// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// invariant is what a run may break: its name, or several that stand together, and what it says.
type invariant struct{ names, says string }

// invariants are all that a manager can be blamed for. docs/reliability.md shows them.
func invariants() []invariant {
	return []invariant{
		{"budget", "no more nodes lose their last available pod to the managers at once than `maxUnavailable`, over all managers that ever were"},
		{"surge", "with a surge no node loses its only available pod, and no more nodes get a second one than `maxSurge`"},
		{"one-pod", "one live pod on a node, two with a surge"},
		{"needless", "no pod of the newest revision is deleted that is the only one of a node that should have it, nor with a surge the only one of its revision there"},
		{"known-pod", "nobody creates a pod where they know of one, on a view that is older than what a write has answered; for deletes and patches the same is judged by budget and needless"},
		{"uid, hook", "no delete without the UID of the pod, nor before the pod's hook has released it"},
		{"paused, selector, partition, on-delete", "no update of a node begins where the specification forbids it, whether its old pod is available or not, with a surge or without"},
		{"in-place", "a pod gets another image only while its gate is closed, and its gates are opened again only when its node runs that image, or has not come to it for 40 s"},
		{"status", "every status says what its manager knew at one moment of the pass that writes it, and the last one what is so"},
		{"lease", "nobody writes whose lease was not renewed in time, however long it has stood still in the middle of its work"},
		{"other", "a pass that begins while another controller is at work writes nothing, and one in the middle of which one comes begins with no further pod; while OpenYurt's own manager is at work its annotations have no old pod deleted, and pods are told nothing"},
		{"foreign", "nothing is done to an object of another namespace, whomever that names as its owner"},
		{"deleting", "of a set that is being deleted no pod is made, and no update of one begins; and no pod or revision that is being deleted is adopted"},
		{"order", "the same nodes and pods always give the same plan, in whichever order the pods of a node are named"},
		{"conditions", "in the end they say that all is done, or that the rest is kept back"},
		{"liveness", words("within %d fair rounds every node that has to run a pod has one that is available, and of the newest revision that it may have, and then nobody does anything any more: in some runs first with one node that stays down, or whose pods no hook releases, or for whose pods a policy refuses a kind of write (in some runs a last update begins when that comes), on the others as far as the budget is not used up by that; then with the pause, the partition and the selector that users have left; and then without them", fairRounds)},
	}
}

// ruleNames are the names of all invariants.
func ruleNames() []string {
	var names []string
	for _, v := range invariants() {
		names = append(names, strings.Split(v.names, ", ")...)
	}
	return names
}

// checkRules refuses a list, with commas, that names what is no invariant.
func checkRules(list string) error {
	for _, name := range strings.Split(list, ",") {
		if list != "" && !slices.Contains(ruleNames(), name) {
			return fmt.Errorf("%q is no invariant: choose from %s", name, strings.Join(ruleNames(), ", "))
		}
	}
	return nil
}

// TestRulesAreKnown: who asks for an invariant that there is none of is told so, and nobody is blamed for one.
func TestRulesAreKnown(t *testing.T) {
	for list, known := range map[string]bool{"": true, "budget": true, "uid,hook": true, "budgets": false, "budget,": false, "uid, hook": false} {
		if err := checkRules(list); (err == nil) != known {
			t.Errorf("%q: %v", list, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("somebody was blamed for what is no invariant")
		}
	}()
	(&sim{}).blame("budgets", "nothing")
}

// TestInvariantsAreListed: each of the list is asked somewhere, and docs/reliability.md shows the list; -update writes it there.
func TestInvariantsAreListed(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, data...)
	}
	for _, name := range ruleNames() {
		if asked := regexp.MustCompile(`\bs\.blame\("` + name + `"`); !asked.Match(code) {
			t.Errorf("nobody is ever blamed for %s", name)
		}
	}
	const file = "../../docs/reliability.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := bytes.Cut(data, []byte("<!-- invariants: begin -->\n"))
	_, tail, ends := bytes.Cut(rest, []byte("<!-- invariants: end -->\n"))
	if !begins || !ends {
		t.Fatalf("%s has no section of invariants", file)
	}
	want := words("%s<!-- invariants: begin -->\n%s<!-- invariants: end -->\n%s", head, invariantTable(), tail)
	if *update {
		err = os.WriteFile(file, []byte(want), 0o600)
	} else if want != string(data) {
		err = fmt.Errorf("%s shows other invariants (run with -update to write them down)", file)
	}
	if err != nil {
		t.Error(err)
	}
}

func invariantTable() string {
	lines := []string{"| invariant | in words |", "|---|---|"}
	for _, v := range invariants() {
		lines = append(lines, words("| %s | %s |", v.names, v.says))
	}
	return strings.Join(lines, "\n") + "\n"
}
