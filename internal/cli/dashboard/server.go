// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"

	"github.com/spf13/cobra"
)

// static has the files of the page. They are built from web by hack/tools/web.
//
//go:embed static
var static embed.FS

// files are the files of the page, and their types.
func files() map[string][2]string {
	return map[string][2]string{
		"/":             {"index.html", "text/html; charset=utf-8"},
		"/app.js":       {"app.js", "text/javascript; charset=utf-8"},
		"/app.css":      {"app.css", "text/css; charset=utf-8"},
		"/icon.svg":     {"icon.svg", "image/svg+xml"},
		"/licences.txt": {"licences.txt", "text/plain; charset=utf-8"},
	}
}

const (
	// shortestPace is the minimum time between two frames of a set, longestPace the maximum.
	shortestPace = 250 * time.Millisecond
	longestPace  = 2 * time.Second
)

// errMissing is the error for a set or node that does not exist.
var errMissing = errors.New("it does not exist, or is in a namespace that this dashboard does not show")

// server serves one cluster to one user.
type server struct {
	o       *options.Options
	clients *options.Clients
	fleet   *inspect.Fleet
	places  places
	turns   *turns
	// owner is who takes turns; empty if there is only one user.
	owner     string
	hubs      *hubs
	recorder  *recorder
	context   string
	namespace string
	// connection has the flags for the cluster in a command for a shell; the dashboard in the cluster knows none.
	connection []string
	// leftOut lists what is not shown because of missing rights; empty if a terminal has shown it.
	leftOut string
	// verbs makes the plugin.
	verbs func(*options.Options) *cobra.Command
}

func newServer(ctx context.Context, o *options.Options, clients *options.Clients) *server {
	return &server{
		o: o, clients: clients, places: newPlaces(), turns: newTurns(),
		hubs: &hubs{ctx: ctx, all: map[string]*hub{}}, recorder: newRecorder(),
	}
}

// watch begins to watch the cluster, and to record.
func (s *server) watch(ctx context.Context) (err error) {
	s.fleet, err = inspect.WatchAll(ctx, s.o, s.clients, inspect.Watching{Namespace: s.namespace, Changed: s.note, Turned: s.turned})
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	go s.record(ctx)
	return nil
}

// note records that a set has changed. It never waits for long.
func (s *server) note(key clustercache.Key) {
	s.recorder.touch(key)
	s.hubs.note(key)
}

// turned makes new frames of all pages: each says whether it may be outdated, and the list of sets would be made only some seconds later.
func (s *server) turned() {
	s.hubs.touch(func(string) bool { return true })
}

// unread is the reason why the page may be incomplete; empty if it is not.
func (s *server) unread() string {
	return strings.TrimSpace(s.leftOut + s.fleet.Unread())
}

// lost is the reason why the page may be outdated; empty if it is not.
func (s *server) lost() string {
	err := s.fleet.Lost()
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err // the address of a watch is long and not useful
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

const (
	// listName is the page with the list of all sets, setPrefix begins the pages of sets, nodePrefix those of nodes.
	listName   = "sets"
	setPrefix  = "set/"
	nodePrefix = "node/"
)

// pageOf returns the page of a set.
func pageOf(key clustercache.Key) string {
	return setPrefix + key.Dialect + "/" + key.Namespace + "/" + key.Name
}

// handler answers all requests of the one user that a guard lets in.
func (s *server) handler(g *guard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/session", limit(s.places.requests, g.fromPage(g.login)))
	mux.HandleFunc("GET /api/session", g.data(func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"cluster": s.context}) }))
	mux.HandleFunc("/api/", g.data(s.data().ServeHTTP))
	serveFiles(mux)
	return g.protect(mux)
}

// data answers requests for data; another handler has checked who sends them.
func (s *server) data() http.Handler {
	mux := http.NewServeMux()
	few := func(next http.HandlerFunc) http.HandlerFunc { return limit(s.places.requests, next) }
	mux.HandleFunc("GET /api/verdicts", few(verdicts))
	for _, page := range []string{listName, "set", "node"} {
		mux.HandleFunc("GET /api/"+page, few(func(w http.ResponseWriter, r *http.Request) { s.once(w, r, page) }))
		mux.HandleFunc("GET /api/"+page+"/stream", limit(s.places.viewers, func(w http.ResponseWriter, r *http.Request) { s.stream(w, r, page) }))
	}
	mux.HandleFunc("GET /api/set/past", few(s.past))
	mux.HandleFunc("GET /api/cell", few(s.cell))
	mux.HandleFunc("GET /api/rights", few(s.rights))
	mux.HandleFunc("POST "+verbPath, few(withBody(largestVerb, s.verb)))
	mux.HandleFunc("POST "+applyPath, s.planned(withBody(largestPlan, s.verb)))
	return mux
}

// serveFiles adds the files of the page, which are the same for everybody.
func serveFiles(mux *http.ServeMux) {
	for path, file := range files() {
		mux.HandleFunc("GET "+path+end(path), func(w http.ResponseWriter, _ *http.Request) {
			data, err := static.ReadFile("static/" + file[0])
			if err != nil {
				fail(w, http.StatusNotFound, "there is no such file")
				return
			}
			w.Header().Set("Content-Type", file[1])
			_, _ = w.Write(data) // who has left does not read it
		})
	}
}

// end keeps the pattern / from matching everything.
func end(path string) string {
	if path == "/" {
		return "{$}"
	}
	return ""
}

// page joins the hub of the page that a request names.
func (s *server) page(r *http.Request, page string) (h *hub, leave func(), err error) {
	switch page {
	case listName:
		h, leave = s.hubs.join(page, func() builder { return &listPage{s: s} })
	case "node":
		name := r.FormValue("name")
		h, leave = s.hubs.join(nodePrefix+name, func() builder { return &nodePage{s: s, name: name} })
	default:
		key, err := keyOf(r)
		if err != nil {
			return nil, nil, err
		}
		if s.fleet.WorkloadOf(key) == nil {
			return nil, nil, errMissing
		}
		unview := s.recorder.view(key, s.o.Now)
		joined, unjoin := s.hubs.join(pageOf(key), func() builder { return &setPage{s: s, key: key} })
		h, leave = joined, func() { unjoin(); unview() }
	}
	return h, leave, nil
}

// keyOf returns the set that a request names, as namespace=NAMESPACE and set=ads/NAME or daemonset/NAME.
func keyOf(r *http.Request) (clustercache.Key, error) {
	return resolver.Key(r.FormValue("namespace"), r.FormValue("set")) //nolint:wrapcheck // it names the argument
}

// once answers with a whole page.
func (s *server) once(w http.ResponseWriter, r *http.Request, page string) {
	h, leave, err := s.page(r, page)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer leave()
	f, err := h.first(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	answer(w, f.since(nil))
}

// stream answers with a page, and with what changes on it.
func (s *server) stream(w http.ResponseWriter, r *http.Request, page string) {
	h, leave, err := s.page(r, page)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer leave()
	if _, err := h.first(r.Context()); err != nil {
		s.fail(w, err)
		return
	}
	h.follow(w, r)
}

// cell answers with what is known about the node of a cell.
func (s *server) cell(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	set := s.fleet.WorkloadOf(key)
	if set == nil {
		s.fail(w, errMissing)
		return
	}
	d := s.readNode(r.Context(), r.FormValue("node"), key.Namespace)
	kept := []podDetails{}
	for _, p := range d.Pods {
		if p.owner == set.UID {
			kept = append(kept, p)
		}
	}
	d.Pods = kept
	answer(w, d)
}

// verdictRow describes a verdict.
type verdictRow struct {
	Sentence string `json:"sentence"`
	Group    int    `json:"group"`
}

// verdicts answers with all verdicts.
func verdicts(w http.ResponseWriter, _ *http.Request) {
	all := map[string]verdictRow{}
	for _, kind := range rollout.VerdictKinds() {
		all[kind.String()] = verdictRow{kind.Sentence(), int(kind.Group())}
	}
	answer(w, all)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who has left does not read it
}

// fail answers with an error of the cluster or of the request.
func (s *server) fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, errMissing), apierrors.IsNotFound(err):
		code = http.StatusNotFound
	case apierrors.IsForbidden(err):
		code = http.StatusForbidden
	case options.Code(err) == options.ExitUsage:
		code = http.StatusBadRequest
	case errors.Is(err, context.Canceled):
		code = http.StatusServiceUnavailable
	}
	fail(w, code, options.PageText(err))
}
