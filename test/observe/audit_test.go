// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// audited makes writes of a manager, one each second.
func audited(managers ...string) []Write {
	begin, writes := time.Unix(1_000_000, 0), []Write{}
	for i, manager := range managers {
		sent := begin.Add(time.Duration(i) * time.Second)
		if manager == "" {
			continue // nobody writes in that second
		}
		writes = append(writes, Write{
			Sent: sent, Done: sent.Add(10 * time.Millisecond), Manager: manager, User: "managers", Verb: "delete", Resource: "pods", Namespace: "ns",
			Name: fmt.Sprintf("pod%d", i), Code: 200, UID: types.UID(fmt.Sprint("uid", i)),
		})
	}
	return writes
}

// TestWritesCanFail: a log in which all is well, and one change of it for each invariant.
func TestWritesCanFail(t *testing.T) {
	change := func(edit func(writes []Write)) []Write {
		writes := audited("a", "a", "", "", "", "", "", "b", "b")
		edit(writes)
		return writes
	}
	for name, test := range map[string]struct {
		writes []Write
		want   Invariant
	}{
		"all is well":                    {writes: change(func([]Write) {})},
		"a delete without a UID":         {change(func(w []Write) { w[1].UID = "" }), Precondition},
		"one that is not even read":      {writes: change(func(w []Write) { w[1].UID, w[1].Code = "", 403 })},
		"a pod that is deleted twice":    {change(func(w []Write) { w[3].UID = w[0].UID }), Once},
		"an answer that is lost":         {writes: change(func(w []Write) { w[3].UID = w[0].UID })},
		"a second one that is refused":   {writes: change(func(w []Write) { w[3].UID, w[3].Code = w[0].UID, 409 })},
		"two managers at once":           {audited("a", "b"), OneWriter},
		"an old leader that writes":      {audited("a", "", "", "", "", "", "b", "a"), OneWriter},
		"an answer that comes too late":  {change(func(w []Write) { w[1].Done = w[2].Sent.Add(-time.Second) }), OneWriter},
		"a successor that does not wait": {audited("b", "b", "", "b"), OneWriter},
		"a stranger":                     {change(func(w []Write) { w[1].Manager, w[1].User = "", "somebody" }), Known},
		"a user":                         {writes: change(func(w []Write) { w[1].Manager, w[1].User = "", "me" })},
		"the garbage collector":          {writes: change(func(w []Write) { w[1].Manager, w[1].User = "", garbageCollector })},
		"the collector at another time":  {change(func(w []Write) { w[3].Manager, w[3].User = "", garbageCollector }), Known},
		"another namespace":              {writes: change(func(w []Write) { w[1].UID, w[1].Namespace = "", "other" })},
	} {
		t.Run(name, func(t *testing.T) {
			rules := WriteRules{Namespace: "ns", Users: []string{"me"}, Fence: 5 * time.Second, Collecting: []Span{{time.Unix(1_000_000, 0), time.Unix(1_000_003, 0)}}}
			if name == "a successor that does not wait" {
				rules.Deaths = []Death{{"b", time.Unix(1_000_000, 500)}}
			}
			if name == "an answer that is lost" {
				rules.Outages = []time.Time{time.Unix(1_000_001, 0)}
			}
			report := JudgeWrites(test.writes, rules)
			switch {
			case test.want == "" && len(report.Violations) > 0:
				t.Errorf("found %q", report.Violations)
			case test.want != "" && (len(report.Violations) == 0 || !strings.HasPrefix(report.Violations[0], string(test.want)+": ")):
				t.Errorf("found %q, want %s", report.Violations, test.want)
			}
		})
	}
}

// TestGaps: who was not at work leaves no gap.
func TestGaps(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	writes := audited("a", "a", "", "", "", "", "", "", "", "b", "b", "b")
	rules := WriteRules{Namespace: "ns", Fence: 5 * time.Second, Deaths: []Death{
		{"b", begin.Add(500 * time.Millisecond)}, {"a", begin.Add(1500 * time.Millisecond)}, {"b", begin.Add(time.Hour)},
	}}
	report := JudgeWrites(writes, rules)
	if want := []time.Duration{7500 * time.Millisecond}; !slices.Equal(report.Gaps, want) || report.Turns != 1 || len(report.Violations) != 0 {
		t.Errorf("gaps %v, want %v; %d turns; %v", report.Gaps, want, report.Turns, report.Violations)
	}
	if report.Counts["delete pods"] != len(writes) {
		t.Errorf("counted %v", report.Counts)
	}
}

func TestReadAudit(t *testing.T) {
	const line = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"1","stage":"ResponseComplete","verb":"delete",` +
		`"user":{"username":"system:serviceaccount:everynode-system:everynode-manager","groups":["system:authenticated","localplane:manager-2"]},` +
		`"objectRef":{"resource":"pods","namespace":"ns","name":"p"},"responseStatus":{"code":200},` +
		`"requestObject":{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u","resourceVersion":"7"}},` +
		`"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z","stageTimestamp":"2026-01-01T00:00:02.000000Z"}`
	writes, err := ReadAudit(strings.NewReader(line[:80] + line + "\n" + line + "\n" + line[:100]))
	if err != nil || len(writes) != 2 {
		t.Fatalf("read %v, %v", writes, err)
	}
	w := writes[0]
	if w.Manager != "manager-2" || w.UID != "u" || w.Version != "7" || w.Verb != "delete" || w.Resource != "pods" || w.Code != 200 || w.Done.Sub(w.Sent) != time.Second {
		t.Errorf("read %+v", w)
	}
	if _, err := ReadAudit(strings.NewReader(line + "\nnonsense\n" + line + "\n")); err == nil {
		t.Error("a line that is none was read")
	}
}

// TestReadAuditWithoutAnswer: what the API server has not answered is neither done nor refused, whatever it has noted.
func TestReadAuditWithoutAnswer(t *testing.T) {
	const line = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"%s","verb":"delete","user":{"username":"me"},"objectRef":{"resource":"pods","name":"p"},` +
		`"responseStatus":{"code":%d,"message":"%s"},"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z","stageTimestamp":"2026-01-01T00:00:02.000000Z"}`
	for what, text := range map[string]string{
		"nothing was written": fmt.Sprintf(line, "ResponseComplete", 200, "Connection closed early"),
		"it was cut off":      fmt.Sprintf(line, "Panic", 500, "APIServer panic'd: net/http: abort Handler"),
	} {
		writes, err := ReadAudit(strings.NewReader(text))
		if err != nil || len(writes) != 1 || writes[0].done() || !writes[0].mayBeDone() || writes[0].Code != 0 {
			t.Errorf("%s: read %+v, %v", what, writes, err)
		}
	}
}
