// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// API is the API of one node.
type API struct {
	o     Options
	gate  *gate
	inner http.Handler
	// deciding is held while a decision is made, withdrawn or executed.
	deciding sync.Mutex
	decided  chan struct{}
}

// route is one route of the API.
type route struct {
	method, path string
	serve        http.HandlerFunc
	// open reports whether it needs no authentication. All other routes identify the caller themselves.
	open bool
}

// New returns the API of a node. Its method Run executes decisions.
func New(o Options) *API {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Host == nil {
		o.Host = IsLoopback
	}
	a := &API{o: o, gate: newGate(&o), decided: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, r := range a.routes() {
		if r.open {
			r.serve = a.public(r.serve)
		}
		mux.HandleFunc(r.method+" "+r.path, r.serve)
		allowed[r.path] = append(allowed[r.path], r.method)
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		mux.HandleFunc(path, a.public(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			writeProblem(w, r, &problem{code: http.StatusMethodNotAllowed, message: "use " + strings.Join(methods, " or ")})
		}))
	}
	mux.HandleFunc("/", a.public(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, &problem{code: http.StatusNotFound, message: "there is nothing at this path: see /v2/openapi.json"})
	}))
	a.inner = mux
	return a
}

// public serves a route without authentication, within the quota of anonymous requests.
func (a *API) public(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p := a.gate.allow(a.gate.anonymous, r); p != nil {
			writeProblem(w, r, p)
			return
		}
		serve(w, r)
	}
}

func (a *API) routes() []route {
	all := []route{
		{http.MethodGet, "/v2/openapi.json", a.serveOpenAPI, true},
		{http.MethodGet, "/v2/pods", a.listPods, false},
		{http.MethodGet, "/v2/pods/{namespace}/{name}", a.podRoute(verbRead, a.getPod), false},
		{http.MethodPost, "/v2/pods/{namespace}/{name}/upgrade", a.podRoute(verbChange, a.postUpgrade), false},
		{http.MethodGet, "/v2/pods/{namespace}/{name}/upgrade", a.podRoute(verbRead, a.getDecision), false},
		{http.MethodDelete, "/v2/pods/{namespace}/{name}/upgrade", a.podRoute(verbChange, a.deleteDecision), false},
		{http.MethodPost, "/v2/pods/{namespace}/{name}/imagepull", a.podRoute(verbChange, a.postImagePull), false},
	}
	if a.o.OpenYurt {
		all = append(all,
			route{http.MethodGet, "/pods", a.yurthubPods, true},
			route{http.MethodPost, "/openyurt.io/v1/namespaces/{namespace}/pods/{name}/upgrade", a.yurthubUpgrade, true},
			route{http.MethodPost, "/openyurt.io/v1/namespaces/{namespace}/pods/{name}/imagepull", a.yurthubImagePull, true})
	}
	return all
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	noted := &statusWriter{ResponseWriter: w}
	a.recoverPanic(noted, r)
	if a.o.Answered != nil {
		a.o.Answered(cmp.Or(noted.code, http.StatusOK))
	}
}

// recoverPanic serves a request. It logs a panic, because the log of the server is dropped. The client gets no details,
// because they may contain secrets. A response that has started can only be aborted.
func (a *API) recoverPanic(w *statusWriter, r *http.Request) {
	defer func() {
		failed := recover()
		if failed == nil {
			return
		}
		if err, is := failed.(error); is && errors.Is(err, http.ErrAbortHandler) {
			panic(failed) // a handler aborts the response with this panic; it is not an error
		}
		klog.ErrorS(nil, "A request has panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(failed), "stack", string(debug.Stack()))
		if w.code != 0 {
			panic(http.ErrAbortHandler)
		}
		writeProblem(w, r, &problem{code: http.StatusInternalServerError, message: "internal error: see the log of the agent"})
	}()
	a.serve(w, r)
}

// statusWriter records the status code of a response, 0 before there is one.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (n *statusWriter) WriteHeader(code int) {
	n.code = code
	n.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (n *statusWriter) Write(data []byte) (int, error) {
	n.code = cmp.Or(n.code, http.StatusOK)
	return n.ResponseWriter.Write(data)
}

// Unwrap is used by http.ResponseController.
func (n *statusWriter) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if p := a.gate.check(r); p != nil {
		writeProblem(w, r, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), workTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, a.o.Limits.BodyBytes)
	a.inner.ServeHTTP(w, r)
}

// podName returns the pod in the path of a request.
func podName(r *http.Request) types.NamespacedName {
	return types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}
