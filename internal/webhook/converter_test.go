// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConversionsTakeTurns: large reviews, and those that do not say how large they are, are read a few at a time, and take no turns of small ones.
func TestConversionsTakeTurns(t *testing.T) {
	c := newConverter()
	c.smallTurn, c.largeTurn = time.Millisecond, time.Millisecond
	post := func(length int64) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(`{"request":{}}`))
		r.ContentLength = length
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Code
	}
	for range largeAtOnce {
		_ = c.large.enter(t.Context(), "another")
	}
	for _, length := range []int64{-1, smallReview + 1} {
		if code := post(length); code != http.StatusServiceUnavailable {
			t.Errorf("while all turns are taken, a review of %d bytes is answered %d", length, code)
		}
	}
	if code := post(2); code != http.StatusOK {
		t.Errorf("a small review is answered %d", code)
	}
	c.large.leave()
	for range 3 { // each gives its turn back
		if code := post(-1); code != http.StatusOK {
			t.Errorf("a large review that has its turn is answered %d", code)
		}
	}
	for range smallAtOnce {
		_ = c.small.enter(t.Context(), "another")
	}
	if code := post(2); code != http.StatusServiceUnavailable {
		t.Errorf("while all turns are taken, a small review is answered %d", code)
	}
	if c.small.free != 0 || c.large.free != 1 || c.pool.held != 0 || len(c.pool.of) != 0 {
		t.Errorf("%d and %d turns are free in the end, and %d bytes are held", c.small.free, c.large.free, c.pool.held)
	}
}

// TestTheMemoryOfSmallReviewsIsShared: one sender has a part of it.
func TestTheMemoryOfSmallReviewsIsShared(t *testing.T) {
	c := newConverter()
	c.pool.patience = time.Millisecond
	post := func(from string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(`{"request":{}}`))
		r.RemoteAddr = from + ":1"
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Code
	}
	if c.pool.take("10.0.0.1", pooledOfSender) != nil {
		t.Fatal("there is no memory")
	}
	if code := post("10.0.0.1"); code != http.StatusServiceUnavailable {
		t.Errorf("a sender with all that one may have is answered %d", code)
	}
	if code := post("10.0.0.2"); code != http.StatusOK {
		t.Errorf("another sender is answered %d", code)
	}
	c.pool.free("10.0.0.1", pooledOfSender)
	if code := post("10.0.0.1"); code != http.StatusOK {
		t.Errorf("the sender that has nothing any more is answered %d", code)
	}
}

// TestAReviewThatClaimsToBeSmall is read no further than that.
func TestAReviewThatClaimsToBeSmall(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(`"`+strings.Repeat("x", smallReview)+`"`))
	r.ContentLength = 10
	w := httptest.NewRecorder()
	newConverter().ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "too large") {
		t.Errorf("%d: %s", w.Code, w.Body.String())
	}
}

// Clients without a certificate that send reviews slowly, and send the next one when they are cut off, do not keep the API server from having its objects
// converted.
func TestSlowReviewsKeepNobodyOut(t *testing.T) {
	const clients = 4 * smallAtOnce
	var reading atomic.Int32
	server := httptest.NewUnstartedServer(newConverter())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateActive {
			reading.Add(1)
		}
	}
	server.Start()
	var wg sync.WaitGroup
	var open []net.Conn
	for range clients {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		wg.Go(func() {
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", PathConvert)
			_, _ = c.Read(make([]byte, 1))
		})
	}
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
		wg.Wait()
		server.Close()
	}()
	for reading.Load() < clients {
		<-time.After(time.Millisecond)
	}
	const honest = `{"request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[]}}`
	for range 4 {
		answer, err := (&http.Client{Timeout: readTimeout / 2}).Post(server.URL+PathConvert, "application/json", strings.NewReader(honest))
		if err != nil {
			t.Fatalf("an honest review of %d bytes is not answered, because %d clients send theirs slowly: %v", len(honest), clients, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("an honest review is answered %s", answer.Status)
		}
	}
}

// peak is how much more memory is in use at most while f runs.
func peak(f func()) int {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	use := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	runtime.GC()
	before, most := use(), 0
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, use())
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most - before
}

// TestConversionsTakeLittleMemory, whatever is in a review: 16 small ones and 2 large ones have to fit into the memory of the manager.
func TestConversionsTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it converts 50 MiB: run without -short")
	}
	const size = 7 << 20
	set := func(more string) string {
		return `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet"` + more + `}`
	}
	many := func(one string, bytes int) string { return strings.Repeat(one+",", bytes/(len(one)+1)) + one }
	review := func(objects, more string) string {
		return `{"request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[` + objects + `]}` + more + `}`
	}
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"objects of nothing":            {review(many("{}", size), ""), http.StatusOK},
		"a set with objects of nothing": {review(set(`,"spec":[`+many("{}", size)+"]"), ""), http.StatusOK},
		"sets with objects of nothing":  {review(many(set(`,"spec":[`+many("{}", 3*200_000)+"]"), size), ""), http.StatusOK},
		"a set as large as may be":      {review(set(`,"spec":[`+many("{}", 3<<20)+"]"), ""), http.StatusOK},
		"sets of nothing":               {review(many(set(""), size), ""), http.StatusOK},
		"a kind of objects":             {review(`{"kind":[`+many("{}", size)+"]}", ""), http.StatusOK},
		"a response of objects":         {review("", `,"response":{"convertedObjects":[`+many("{}", size)+"]}"), http.StatusOK},
		"texts that grow":               {review(many(set(`,"spec":"`+strings.Repeat("<", 1<<20)+`"`), size), ""), http.StatusOK},
	} {
		var code int
		used := peak(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(c.body))
			w := httptest.NewRecorder()
			newConverter().ServeHTTP(w, r)
			code = w.Code
		})
		t.Logf("%s: %d MiB", name, used>>20)
		if used > 128<<20 || code != c.code {
			t.Errorf("%s: a review of %d MiB is answered %d and takes %d MiB", name, len(c.body)>>20, code, used>>20)
		}
	}
}

// TestWhatAnAPIServerStoresIsConverted: a tenant may store a set with half a million values. If it were not converted, no list in the other version would work for
// anybody.
func TestWhatAnAPIServerStoresIsConverted(t *testing.T) {
	const stored = 1536 << 10
	object := `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","metadata":{"name":"set"},"spec":{"template":{"spec":{"containers":[{"args":[` +
		strings.Repeat(`"",`, stored/3) + `""]}]}}},"status":{"daemonSetHash":"x"}}`
	code, text := convert(t, `{"request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[`+object+`]}}`)
	var answer apiextensionsv1.ConversionReview
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d: %v", code, err)
	}
	if answer.Response.Result.Status != metav1.StatusSuccess || len(answer.Response.ConvertedObjects) != 1 {
		t.Fatalf("an object that can be stored is not converted: %s", answer.Response.Result.Message)
	}
	checkConverted(t, []byte(object), answer.Response.ConvertedObjects[0].Raw, "apps.kruise.io/v1beta1")
}

// TestLargeObjectsAreDecodedOneAtATime: many senders ask at the same time for the conversion of an object that takes a hundred times its size.
func TestLargeObjectsAreDecodedOneAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it converts 24 MiB: run without -short")
	}
	const senders = 8
	body := `{"request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","spec":[` +
		strings.Repeat("{},", 1<<20) + `{}]}]}}`
	c := newConverter()
	c.smallTurn = time.Minute
	used := peak(func() {
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathConvert, strings.NewReader(body))
				r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i)
				c.ServeHTTP(httptest.NewRecorder(), r)
			})
		}
		all.Wait()
	})
	t.Logf("%d MiB", used>>20)
	if used > 400<<20 {
		t.Errorf("%d reviews of 3 MiB take %d MiB", senders, used>>20)
	}
}

// TestManySetsAreConverted: a list of 1,000 sets of 20 KB, as an API server asks for.
func TestManySetsAreConverted(t *testing.T) {
	const sets = 1000
	var objects []string
	for i := range sets {
		env := make([]string, 0, 200)
		for k := range cap(env) {
			env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"<%s>"}`, k, strings.Repeat("v", 65)))
		}
		objects = append(objects, fmt.Sprintf(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"DaemonSet","metadata":{"name":"set-%d"},"spec":{"env":[%s]},"status":{"daemonSetHash":"x"}}`,
			i, strings.Join(env, ",")))
	}
	body := `{"request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[` + strings.Join(objects, ",") + `]}}`
	code, text := convert(t, body)
	var answer apiextensionsv1.ConversionReview
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d: %v", code, err)
	}
	if n := len(answer.Response.ConvertedObjects); n != sets || len(body) < 20_000*sets {
		t.Fatalf("%d bytes become %d objects: %s", len(body), n, answer.Response.Result.Message)
	}
	for i := 0; i < sets; i += 50 {
		checkConverted(t, []byte(objects[i]), answer.Response.ConvertedObjects[i].Raw, "apps.kruise.io/v1beta1")
	}
}
