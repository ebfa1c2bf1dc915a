// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"everynode.dev/everynode/test/report"
)

// What the API server uses its CPU for is read from its profile: a stack that handles a request has the name of its handler, whichever
// client has sent it. What is done before the handler, and for all requests together, is a part of its own.

// part is what the API server does, and how to know it: the first one of which a function is on the stack.
type part struct {
	name      string
	functions []string
}

const (
	handlers = "k8s.io/apiserver/pkg/endpoints/handlers."
	restPart = "rest"
)

func parts() []part {
	return []part{
		{"create", []string{handlers + "createHandler", handlers + "CreateNamedResource", handlers + "CreateResource"}},
		{"patch", []string{handlers + "PatchResource", handlers + "(*patcher)"}},
		{"update", []string{handlers + "UpdateResource"}},
		{"delete", []string{handlers + "DeleteResource", handlers + "DeleteCollection"}},
		{"watch", []string{handlers + "(*WatchServer)", handlers + "serveWatch", handlers + "(*watchEncoder)", "k8s.io/apiserver/pkg/storage/cacher."}},
		{"read", []string{handlers + "ListResource", handlers + "getResourceHandler", handlers + "GetResource"}},
		{"before the handler", []string{"golang.org/x/net/http2.(*serverConn).runHandler", "net/http.(*http2serverConn).runHandler"}},
		{"connections of clients", []string{"golang.org/x/net/http2.(*serverConn)", "net/http.(*http2serverConn)", "net/http.(*conn)"}},
		{"storage", []string{"google.golang.org/grpc", "go.etcd.io/etcd", "k8s.io/apiserver/pkg/storage/etcd3"}},
		{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}},
	}
}

// partOf is the part of a stack.
func partOf(functions []string) string {
	for _, p := range parts() {
		for _, f := range functions {
			if slices.ContainsFunc(p.functions, func(known string) bool { return strings.HasPrefix(f, known) }) {
				return p.name
			}
		}
	}
	return restPart
}

// partsOf are the CPU seconds of each part in a profile.
func partsOf(p *profile.Profile) map[string]float64 {
	seconds := map[string]float64{}
	for _, sample := range p.Sample {
		seconds[partOf(stack(sample))] += time.Duration(sample.Value[len(sample.Value)-1]).Seconds()
	}
	return seconds
}

// serverTable is what the API server has used its CPU for.
func (r *run) serverTable() report.Table {
	names := []string{}
	for _, p := range parts() {
		names = append(names, p.name)
	}
	names = append(names, restPart)
	table := report.Table{Words: 2, Head: append([]string{"", "scenario", "nodes", "API server CPU"}, names...)}
	for _, same := range r.repeats() {
		if len(same[0].Server) == 0 {
			continue
		}
		cells := []string{rowOf(same[0].Row).Title, same[0].Scenario, strconv.Itoa(same[0].Nodes), over(same, func(m result) float64 { return m.APIServerCPU }).format("%.1f")}
		for _, name := range names {
			cells = append(cells, over(same, func(m result) float64 { return m.Server[name] }).format("%.2f"))
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// servedTable is how many requests the API server has answered, of all clients, by what they were for: those that are not rare.
func (r *run) servedTable() report.Table {
	const rare = 0.05 // of the nodes
	table := report.Table{Words: 3, Head: []string{"", "scenario", "request", "nodes", "answered", "for each node"}}
	for _, same := range r.repeats() {
		served := map[string]bool{}
		for _, m := range same {
			for name := range m.Served {
				served[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(served)) {
			n := over(same, func(m result) float64 { return float64(m.Served[name]) })
			if n.median < rare*float64(same[0].Nodes) {
				continue
			}
			table.Rows = append(table.Rows, []string{rowOf(same[0].Row).Title, same[0].Scenario, name, strconv.Itoa(same[0].Nodes), n.format("%.0f"), fmt.Sprintf("%.2f", n.median/float64(same[0].Nodes))})
		}
	}
	return table
}

// faster names the rows that were faster than their floor, in the median of the rounds: then that is no floor.
func (r *run) faster() string {
	var found []string
	for _, same := range r.repeats() {
		m := same[0]
		if s := spreadOf(r.ofRounds(overFloor(m.Row, m.Scenario), m.Nodes)); s.of > 0 && s.median < 1 {
			found = append(found, fmt.Sprintf("%s, %s, %d nodes: %s", rowOf(m.Row).Title, m.Scenario, m.Nodes, s.format("%.2f")))
		}
	}
	if len(found) == 0 {
		return "No row was faster than its floor.\n"
	}
	return "**Faster than the floor**, which was no floor there (wall over floor): " + strings.Join(found, "; ") + ".\n"
}

func TestParts(t *testing.T) {
	for want, stack := range map[string][]string{
		"create":                 {"runtime.mallocgc", "k8s.io/apiserver/pkg/storage/etcd3.(*store).Create", handlers + "createHandler.func1.1", handlers + "finisher.finishRequest.func1"},
		"patch":                  {"sigs.k8s.io/structured-merge-diff/v6/value.eachStructField", handlers + "(*patcher).patchResource.func2"},
		"delete":                 {"runtime.mallocgc", handlers + "DeleteResource.func1.2"},
		"watch":                  {"k8s.io/apiserver/pkg/storage/cacher.(*Cacher).dispatchEvents"},
		"before the handler":     {"crypto/ecdsa.Verify", "golang.org/x/net/http2.(*serverConn).runHandler"},
		"connections of clients": {"syscall.Syscall", "golang.org/x/net/http2.(*serverConn).writeFrameAsync"},
		"storage":                {"syscall.Syscall", "google.golang.org/grpc/internal/transport.(*http2Client).reader"},
		"garbage collection":     {"runtime.scanObject", "runtime.gcBgMarkWorker"},
		restPart:                 {"runtime.findRunnable"},
	} {
		if got := partOf(stack); got != want {
			t.Errorf("%v: %s, want %s", stack, got, want)
		}
	}
	got := partsOf(sampled(map[string]int64{handlers + "createHandler.func1": 30, handlers + "PatchResource.func1": 20, "runtime.findRunnable": 50}))
	if !maps.Equal(got, map[string]float64{"create": 0.3, "patch": 0.2, restPart: 0.5}) {
		t.Errorf("the parts are %v", got)
	}
}

func TestServerTables(t *testing.T) {
	made := func(row string, round int, wall float64, patches int) result {
		return result{
			Row: row, Nodes: 100, Scenario: create, Round: round, Wall: wall, APIServerCPU: wall,
			Server: map[string]float64{"create": wall / 2}, Served: map[string]int{"patch pods/status": patches, "get leases": 3},
		}
	}
	r := &run{Results: []result{made(floorRow, 0, 2, 200), made(nativeRow, 0, 3, 300), made(floorRow, 1, 4, 200), made(nativeRow, 1, 5, 310), made(floorRow, 2, 4, 200), made(nativeRow, 2, 3, 305)}}
	r.sort()
	lines := r.serverTable().Rows
	if len(lines) != 2 || lines[1][3] != "3.0 (3.0–5.0)" || lines[1][4] != "1.50 (1.50–2.50)" {
		t.Errorf("the parts are\n%s", r.serverTable().Markdown())
	}
	lines = r.servedTable().Rows
	if len(lines) != 2 || cmp.Or(lines[1][2], "") != "patch pods/status" || lines[1][4] != "305 (300–310)" || lines[1][5] != "3.05" {
		t.Errorf("the requests are\n%s", r.servedTable().Markdown())
	}
	if text := r.faster(); !strings.Contains(text, "No row") { // 1.5, 1.25, 0.75
		t.Error(text)
	}
	r.Results[4].Wall = 2 // the native controller's second one
	if text := r.faster(); !strings.Contains(text, "native controller, create, 100 nodes: 0.75 (0.50–1.50)") {
		t.Error(text)
	}
}
