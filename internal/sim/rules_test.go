// SPDX-License-Identifier: Apache-2.0

package sim

import (
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
		{"budget", "the managers take the last available pod of at most `maxUnavailable` nodes at once, counted over all managers of the run"},
		{"surge", "with a surge no node loses its only available pod, and at most `maxSurge` nodes get a second one"},
		{"one-pod", "one live pod on a node, two with a surge"},
		{"overtaken", "a delete that was free, because the pod was not ready when it was decided, does not take effect once the pod is ready, unless other clients have changed the pod before three deletes of it, while it was not ready"},
		{"needless", "a pod of the newest revision is not deleted while it is the only pod of a node that should have it, or with a surge the only pod of its revision there, unless the agent of the node has not restarted a container of it in the time for that"},
		{"known-pod", "a manager does not create a pod where it knows of one, from a view that is older than the answer of a write; budget and needless check the same for deletes and patches"},
		{"uid, hook", "no delete without the UID of the pod, or before the pod's hook has released it"},
		{"paused, selector, partition, on-delete", "no update of a node begins where the specification forbids it, whether its old pod is available or not, with and without a surge"},
		{"in-place", "a pod gets another image only while its gate is closed, and its gates open again only when its node runs that image, or has not processed it for 40 s"},
		{"image", "where changes in place wait for images, none begins on a node with an agent before the node has the image, or has been asked to pull it for the time of a pull; a node that was not asked counts from when the last one was, its own release or the creation of the job. No node without an agent waits, no image is pulled on a node that the set holds back, and in the end no job is left"},
		{"restart", "no agent stops a container that was started after the last restart was requested, and in the end the environment of each container is that of its pod"},
		{"status", "every status matches what its manager knew at one moment of the pass that writes it, and the last status matches the cluster"},
		{"lease", "a manager writes only if its lease was renewed in time, however long it was paused in the middle of its work"},
		{"other", "a pass that begins while another controller is active writes nothing, and a pass during which one becomes active starts no further pod; while OpenYurt's own manager is active, its annotations cause no deletes of old pods, and pods get no conditions"},
		{"wave", "with a rollout policy, the update of no node beyond the first wave begins before a manager has seen all nodes of that wave available at the new revision, for the whole soak, and, where that is needed, an approval of exactly this wave and revision; and none of a later wave before the wave before it was complete, for its soak, and has its approval, nor of a wave that grows before the nodes of its earlier steps are done; and a node that the policy holds back and that lacks a pod gets no pod of the new revision, unless `joiningNodes` is `Latest`"},
		{"suspended", "no update begins while the policy that the manager knows is suspended; nor, unless the template describes the committed revision, during a freeze, outside all windows, or after the revision was rejected"},
		{"zones", "with an order of zones, the update of no node of the first wave begins before all nodes of that wave in the zones before have an available pod of the new revision"},
		{"pace", "no more nodes are in the middle of an update that a manager has begun than `maxUpgrading` allows, and with `minTimeBetween` a pass begins one update, and none before that time has passed since the one before took effect, also if the leader dies in between; to create a pod of the newest revision where the last one was old begins an update, too"},
		{"group", "two sets of one concurrency group never have an available pod taken, or a second one added, for an update on one node (in one zone, in the cluster) while the other is at work there, as far as the manager knows at its decision that both are in the group; a set is at work until the node has a pod of the newest revision that is ready, or only one pod, which is ready"},
		{"analysis", "the first wave of a rollout with an analysis passes only while the last answer about the complete wave that its manager has heard is Pass: not with an answer to another question, with none, or while nothing is known"},
		{"undo", "an image that never works fails, and reaches no more nodes than the budget and `maxFailedNodes` allow; then every node that can has an available pod of the committed revision, also if the leader dies or a node goes down in the middle, and a revision does not fail because of a node that was broken before or joins broken, or because others use a quota up; what containers were restarted before counts in neither"},
		{"deleted", "no update to another revision than the committed one begins after the policy was deleted, or before the policies were read"},
		{"forged", "under a rollout policy no pod is created from the ControllerRevision of a stranger, also after the one that it copies was deleted; and a mark of a stranger neither makes a revision fail of which there is a status nor, for `wave` and `suspended`, commits one, except that it may commit the revision that all pods have"},
		{"external", "next to another controller that keeps the pods, a manager deletes pods and marks revisions, and changes nothing else; without a policy it deletes none"},
		{"foreign", "no object of another namespace is changed, whatever owner it names"},
		{"deleting", "a set that is being deleted gets no new pod, and no update of a pod begins; and no pod or revision that is being deleted is adopted"},
		{"late", "a node with no rejected write is never later than one pass because of a node with one, and its plan has nothing less to do because of it"},
		{"verdicts", "every verdict matches what its manager knew at one moment of the pass, no verdict names an action that the API server has rejected, and the last verdicts match the cluster"},
		{"order", "the same nodes and pods always give the same plan, in any order of the pods of a node"},
		{"conditions", "in the end they report that the update is complete, or that the rest is held back"},
		{"liveness", words("within %d fair rounds, or %d of a rollout policy with slow writes, every node that must run a pod has one that is available, of the newest revision that it may have, and then no manager writes any more. Some runs first have one node that stays down, or with pods that no hook releases, or with a policy that rejects a kind of write for its pods (in some of them a last update begins then); the other nodes must finish as far as the budget allows. After that with the pause, the partition and the selector that users have left, and then without them", fairRounds, 3*fairRounds)},
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

// checkRules rejects a list, with commas, with a name that is no invariant.
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
	checkSection(t, "invariants", invariantTable())
}

// checkSection compares a section of docs/reliability.md with its text; -update writes it there.
func checkSection(t *testing.T, name, text string) {
	t.Helper()
	const file = "../../docs/reliability.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := words("<!-- %s: begin -->\n", name), words("<!-- %s: end -->\n", name)
	head, rest, begins := strings.Cut(string(data), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no section of %s", file, name)
	}
	want := head + begin + text + end + tail
	if *update {
		err = os.WriteFile(file, []byte(want), 0o600)
	} else if want != string(data) {
		err = fmt.Errorf("%s shows other %s (run with -update to write them down)", file, name)
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
