// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// The API server's metrics of requests do not say whose they are. But API Priority and Fairness chooses a flow schema by user, verb and
// resource, and counts what it lets through by flow schema. So there is a flow schema for each kind of write, for the users that are
// measured and for nobody else: what it counts is what these users have sent, and what simulated kubelets write is not in it. All of
// them lead to the same priority level, so that no row is served before another.

// Kinds of requests, as results name them.
const (
	podCreates  = "pod create"
	podDeletes  = "pod delete"
	podPatches  = "pod patch"
	podStatuses = "pod status"
	setStatuses = "set status"
	events      = "event"
	leases      = "lease"
	otherWrites = "other write"
	reads       = "read"
)

// kind is one kind of request.
type kind struct {
	name             string
	verbs, resources []string
}

// kinds are all, and the first one that fits counts.
func kinds() []kind {
	change := []string{"update", "patch"}
	write := []string{"create", "update", "patch", "delete", "deletecollection"}
	return []kind{
		{podCreates, []string{"create"}, []string{"pods"}},
		{podDeletes, []string{"delete", "deletecollection"}, []string{"pods"}},
		{podPatches, change, []string{"pods"}},
		{podStatuses, change, []string{"pods/status"}},
		{setStatuses, change, []string{"daemonsets/status"}},
		{events, write, []string{"events"}},
		{leases, write, []string{"leases"}},
		{otherWrites, write, []string{"*"}},
		{reads, []string{"*"}, []string{"*"}},
	}
}

// schema is the name of its flow schema.
func (k kind) schema() string { return "everynode-bench-" + strings.ReplaceAll(k.name, " ", "-") }

// installKinds makes the API server count each kind, and returns once it does.
func installKinds(ctx context.Context, client kubernetes.Interface) error {
	var subjects []flowcontrol.Subject
	for _, user := range []string{floorUser, nativeUser, managerUser} {
		subjects = append(subjects, flowcontrol.Subject{Kind: flowcontrol.SubjectKindUser, User: &flowcontrol.UserSubject{Name: user}})
	}
	const first = 10 // before all of Kubernetes' own but those for its administrators
	schemas := client.FlowcontrolV1().FlowSchemas()
	for i, k := range kinds() {
		s := &flowcontrol.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: k.schema()}}
		s.Spec = flowcontrol.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrol.PriorityLevelConfigurationReference{Name: "workload-high"},
			MatchingPrecedence:         int32(first + i),
			DistinguisherMethod:        &flowcontrol.FlowDistinguisherMethod{Type: flowcontrol.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrol.PolicyRulesWithSubjects{{Subjects: subjects, ResourceRules: []flowcontrol.ResourcePolicyRule{{
				Verbs: k.verbs, APIGroups: []string{"*"}, Resources: k.resources, ClusterScope: true, Namespaces: []string{"*"},
			}}}},
		}
		if _, err := schemas.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating flow schema %s: %w", s.Name, err)
		}
	}
	const patience = 30 * time.Second
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := schemas.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		inUse := 0
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, "everynode-bench-") && digested(&list.Items[i]) {
				inUse++
			}
		}
		return inUse == len(kinds()), nil
	})
}

// digested is whether the API server has taken the flow schema into use.
func digested(s *flowcontrol.FlowSchema) bool {
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrol.FlowSchemaConditionDangling {
			return c.Status == flowcontrol.ConditionFalse
		}
	}
	return false
}

// counts are what the API server has counted so far.
type counts struct {
	Requests  map[string]int // by kind
	Served    map[string]int // of all clients, by verb and resource
	Rejected  int            // with 429, of all kinds
	Watched   map[string]int // events sent to all watchers together, by resource
	PodEvents int            // events about pods, however many watchers are sent each
	Ended     int            // watches of pods that the API server has ended because their readers fell behind
	Nodes     int            // writes of nodes: events about them, however many watchers are sent each
}

// Metrics that are read.
const (
	served     = "apiserver_request_total"
	dispatched = "apiserver_flowcontrol_dispatched_requests_total"
	rejected   = "apiserver_flowcontrol_rejected_requests_total"
	watched    = "apiserver_watch_events_total"
	happened   = "apiserver_watch_cache_events_received_total"
	ended      = "apiserver_terminated_watchers_total"
)

func readCounts(ctx context.Context, client kubernetes.Interface) (counts, error) {
	raw, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return counts{}, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return parseCounts(raw)
}

func parseCounts(raw []byte) (counts, error) {
	c := counts{Requests: map[string]int{}, Watched: map[string]int{}, Served: map[string]int{}}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(only(raw, served, dispatched, rejected, watched, happened, ended)))
	if err != nil {
		return c, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	kindOf := map[string]string{}
	for _, k := range kinds() {
		kindOf[k.schema()] = k.name
	}
	for _, m := range families[dispatched].GetMetric() {
		if name, ours := kindOf[label(m, "flow_schema")]; ours {
			c.Requests[name] += value(m)
		}
	}
	for _, m := range families[served].GetMetric() {
		if name := servedAs(m); name != "" {
			c.Served[name] += value(m)
		}
	}
	for _, m := range families[rejected].GetMetric() {
		if _, ours := kindOf[label(m, "flow_schema")]; ours {
			c.Rejected += value(m)
		}
	}
	for _, m := range families[watched].GetMetric() {
		c.Watched[label(m, "resource")] += value(m)
	}
	c.PodEvents, c.Ended, c.Nodes = of(families[happened], "pods"), of(families[ended], "pods"), of(families[happened], "nodes")
	return c, nil
}

// servedAs is the name of what a request was for; empty for watches, and for what is no resource.
func servedAs(m *dto.Metric) string {
	verb, resource := strings.ToLower(label(m, "verb")), label(m, "resource")
	if verb == "watch" || resource == "" {
		return ""
	}
	if sub := label(m, "subresource"); sub != "" {
		resource += "/" + sub
	}
	return verb + " " + resource
}

// of adds up what has the label of a resource of the core.
func of(family *dto.MetricFamily, resource string) int {
	sum := 0
	for _, m := range family.GetMetric() {
		if label(m, "group") == "" && label(m, "resource") == resource {
			sum += value(m)
		}
	}
	return sum
}

// only are the lines of some metrics: there are tens of thousands of others.
func only(raw []byte, names ...string) []byte {
	var lines bytes.Buffer
	for scanner := bufio.NewScanner(bytes.NewReader(raw)); scanner.Scan(); {
		for _, name := range names {
			if bytes.HasPrefix(scanner.Bytes(), []byte(name+"{")) {
				lines.Write(append(scanner.Bytes(), '\n'))
			}
		}
	}
	return lines.Bytes()
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// value is that of a counter; without the line of its type it is called untyped.
func value(m *dto.Metric) int { return int(m.GetUntyped().GetValue() + m.GetCounter().GetValue()) }

// since is what was counted after before.
func (c counts) since(before counts) counts {
	less := func(now, then map[string]int) map[string]int {
		diff := map[string]int{}
		for key, n := range now {
			if n -= then[key]; n != 0 {
				diff[key] = n
			}
		}
		return diff
	}
	return counts{
		Requests: less(c.Requests, before.Requests), Served: less(c.Served, before.Served), Rejected: c.Rejected - before.Rejected, Watched: less(c.Watched, before.Watched),
		PodEvents: c.PodEvents - before.PodEvents, Ended: c.Ended - before.Ended, Nodes: c.Nodes - before.Nodes,
	}
}

// settled is whether nothing was written since before, leases aside, and all watchers know of all pods.
func (c counts) settled(before counts) bool {
	diff := c.since(before)
	delete(diff.Requests, leases)
	delete(diff.Requests, reads)
	return len(diff.Requests) == 0 && diff.Watched["pods"] == 0 && diff.PodEvents == 0
}

// endedLine is what an API server says with -v=1 when it ends the watch of a reader that has fallen behind.
var endedLine = regexp.MustCompile(`Forcing pods watcher close due to unresponsiveness: key: "([^"]*)", labels: "([^"]*)", fields: "([^"]*)"`)

// tellEnds has the API server say whose watches it ends.
func tellEnds(ctx context.Context, client kubernetes.Interface) error {
	err := client.Discovery().RESTClient().Put().AbsPath("/debug/flags/v").Body([]byte("1")).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("having the API server tell whose watches it ends: %w", err)
	}
	return nil
}

// endedOf are the watches of pods that a log tells of that were ended, by what they asked for. It names no client, but nearly all on a
// plane ask for something of their own: the measurement for one namespace, the scheduler by fields.
func endedOf(log string) map[string]int {
	found := map[string]int{}
	for _, m := range endedLine.FindAllStringSubmatch(log, -1) {
		parts := []string{m[1]}
		for i, what := range []string{"labels ", "fields "} {
			if m[i+2] != "" {
				parts = append(parts, what+m[i+2])
			}
		}
		found[strings.Join(parts, ", ")]++
	}
	return found
}

func TestEndedOf(t *testing.T) {
	const log = `I1122 12:00:00.000000       1 cache_watcher.go:214] Forcing pods watcher close due to unresponsiveness: key: "/pods/", labels: "", fields: "". len(c.input) = 10, len(c.result) = 0, graceful = false
I1122 12:00:00.000000       1 cache_watcher.go:214] Forcing nodes watcher close due to unresponsiveness: key: "/minions/", labels: "", fields: "". len(c.input) = 10, len(c.result) = 0, graceful = false
I1122 12:00:01.000000       1 cache_watcher.go:214] Forcing pods watcher close due to unresponsiveness: key: "/pods/", labels: "", fields: "status.phase!=Failed". len(c.input) = 10, len(c.result) = 10, graceful = false
I1122 12:00:02.000000       1 cache_watcher.go:214] Forcing pods watcher close due to unresponsiveness: key: "/pods/bench/", labels: "", fields: "". len(c.input) = 10, len(c.result) = 10, graceful = false
I1122 12:00:02.000000       1 cache_watcher.go:214] Forcing pods watcher close due to unresponsiveness: key: "/pods/", labels: "", fields: "". len(c.input) = 10, len(c.result) = 0, graceful = false
`
	if got := endedOf(log); !maps.Equal(got, map[string]int{"/pods/": 2, "/pods/, fields status.phase!=Failed": 1, "/pods/bench/": 1}) {
		t.Errorf("got %v", got)
	}
}

func TestCounts(t *testing.T) {
	const text = `# TYPE apiserver_flowcontrol_dispatched_requests_total counter
apiserver_flowcontrol_dispatched_requests_total{flow_schema="everynode-bench-pod-create",priority_level="workload-high"} 7
apiserver_flowcontrol_dispatched_requests_total{flow_schema="service-accounts",priority_level="workload-low"} 1000
apiserver_flowcontrol_dispatched_requests_total{flow_schema="everynode-bench-lease",priority_level="workload-high"} 3
apiserver_flowcontrol_rejected_requests_total{flow_schema="everynode-bench-pod-create",priority_level="workload-high",reason="queue-full"} 2
apiserver_watch_events_total{group="",resource="pods",version="v1"} 1e+06
apiserver_watch_cache_events_received_total{group="",resource="pods"} 300000
apiserver_watch_cache_events_received_total{group="metrics.k8s.io",resource="pods"} 9
apiserver_watch_cache_events_received_total{group="",resource="nodes"} 40
apiserver_watch_cache_events_received_total{group="metrics.k8s.io",resource="nodes"} 9
apiserver_watch_events_total_other{group="",resource="pods"} 5
apiserver_request_total{code="200",group="",resource="pods",subresource="status",verb="PATCH",version="v1"} 20
apiserver_request_total{code="409",group="",resource="pods",subresource="status",verb="PATCH",version="v1"} 1
apiserver_request_total{code="0",group="",resource="pods",subresource="",verb="WATCH",version="v1"} 7
apiserver_request_total{code="200",group="",resource="",subresource="/livez",verb="GET",version=""} 7
`
	c, err := parseCounts([]byte(text))
	if err != nil || !maps.Equal(c.Requests, map[string]int{podCreates: 7, leases: 3}) || c.Rejected != 2 || !maps.Equal(c.Watched, map[string]int{"pods": 1000000}) || c.PodEvents != 300000 || c.Nodes != 40 || !maps.Equal(c.Served, map[string]int{"patch pods/status": 21}) {
		t.Errorf("got %+v, %v", c, err)
	}
	before := counts{Requests: map[string]int{podCreates: 7, leases: 1}, Rejected: 2, Watched: map[string]int{"pods": 400000}, PodEvents: 1, Nodes: 30}
	if d := c.since(before); !maps.Equal(d.Requests, map[string]int{leases: 2}) || d.Rejected != 0 || d.Watched["pods"] != 600000 || d.PodEvents != 299999 || d.Nodes != 10 {
		t.Errorf("since then: %+v", d)
	}
	before = counts{Requests: map[string]int{podCreates: 7, leases: 1}, Watched: map[string]int{"pods": 1000000, "leases": 5}, PodEvents: 300000}
	if !c.settled(before) {
		t.Error("a lease counts as a write")
	}
	if before.Requests[podCreates] = 6; c.settled(before) {
		t.Error("a pod does not count as a write")
	}
	before.Requests[podCreates] = 7
	if before.Watched["pods"]--; c.settled(before) {
		t.Error("an event does not count")
	}
	names := map[string]bool{}
	for _, k := range kinds() {
		if names[k.schema()] {
			t.Errorf("two kinds are counted as %s", k.schema())
		}
		names[k.schema()] = true
	}
}
