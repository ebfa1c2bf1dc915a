// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// logged has what is logged until the end of the test.
func logged(t *testing.T) func() []string {
	t.Helper()
	mu, lines := sync.Mutex{}, []string{}
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	klog.SetLogger(funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}
}

// panicking are pods that cannot be listed.
type panicking struct{ with any }

func (p panicking) Pods() ([]*corev1.Pod, bool, error) { panic(p.with) }

func TestAPanicIsLoggedAndAnswered(t *testing.T) {
	for path, want := range map[string]struct{ body, contentType string }{
		"/v2/pods": {`{"code":500,"reason":"Internal","message":"internal error: see the log of the agent"}` + "\n", jsonType},
		"/pods":    {"internal error: see the log of the agent", "text/plain; charset=utf-8"},
	} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t, daemonPod("p"))
			codes := make(chan int, 9)
			w.begin(func(o *Options) {
				o.Pods, o.Answered = panicking{"the secret of the pods"}, func(code int) { codes <- code }
			})
			log := logged(t)
			if got := w.ask("GET", path, ""); got.code != 500 || got.body != want.body || got.contentType != want.contentType {
				t.Errorf("it is answered %+v", got)
			}
			if code := <-codes; code != 500 || len(codes) > 0 {
				t.Errorf("%d is counted, and %d more", code, len(codes))
			}
			lines := log()
			if len(lines) != 1 {
				t.Fatalf("logged is %q", lines)
			}
			// The stack names what has failed, not only where that was caught.
			for _, part := range []string{`"method"="GET"`, `"path"="` + path + `"`, "the secret of the pods", "panicking.Pods", "panic_test.go"} {
				if !strings.Contains(lines[0], part) {
					t.Errorf("logged is %s, without %s", lines[0], part)
				}
			}
			if got := w.ask("GET", "/v2/openapi.json", ""); got.code != 200 {
				t.Errorf("the next request is answered %+v", got)
			}
		})
	}
}

// Whoever has half of an answer must not take it for a whole one.
func TestAPanicInAnAnswerCutsItOff(t *testing.T) {
	w := newWorld(t)
	log := logged(t)
	w.api.inner = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, jsonType, []byte("half"))
		panic("boom")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/v2/pods", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.server.Client().Do(r); err == nil {
		got.Body.Close()
		t.Errorf("it is answered %s", got.Status)
	}
	if lines := log(); len(lines) != 1 || !strings.Contains(lines[0], "boom") {
		t.Errorf("logged is %q", lines)
	}
}

// http.ErrAbortHandler is how a handler says that it wants to be cut off: nothing is wrong.
func TestAnAnswerThatIsCutOffOnPurposeIsNotLogged(t *testing.T) {
	w := newWorld(t)
	log := logged(t)
	w.begin(func(o *Options) { o.Pods = panicking{http.ErrAbortHandler} })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/pods", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.server.Client().Do(r); err == nil {
		got.Body.Close()
		t.Errorf("it is answered %s", got.Status)
	}
	if lines := log(); len(lines) != 0 {
		t.Errorf("logged is %q", lines)
	}
}
