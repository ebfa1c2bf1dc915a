// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// malformed makes requests that are wrong in some way, from a seed.
type malformed struct{ *rand.Rand }

func (m malformed) one(of ...string) string { return of[m.IntN(len(of))] }

func (m malformed) bytes(length int) string {
	data := make([]byte, m.IntN(length))
	for i := range data {
		data[i] = byte(m.Uint32())
	}
	return string(data)
}

// request is one request, as bytes. Some of its parts are wrong, and it names no pod that there is.
func (m malformed) request() string {
	or := func(good string, bad ...string) string {
		if m.IntN(4) > 0 {
			return good
		}
		return m.one(bad...)
	}
	method := or(m.one("GET", "POST", "DELETE"), "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "", "get", m.bytes(6))
	path := or("/v2/pods/default/q"+m.one("", "/upgrade", "/imagepull"), m.path())
	version := or("HTTP/1.1", "HTTP/1.0", "HTTP/", "", "HTTP/1.1 x", m.bytes(9))
	host := or("Host: 127.0.0.1", "Host: 127.0.0.1:99999", "Host: evil.example", "Host: ", "Host: [::1", "Host: a\r\nHost: b", m.bytes(20))
	caller := or("Authorization: Bearer "+ownerToken, "Authorization: Bearer", "Authorization: Bearer "+m.bytes(40), "Authorization: Basic eA==", "Accept: */*",
		"X: "+strings.Repeat("y", 20000))
	body := or("", "{", "[]", `{"uid":5}`, `{"uid":"x"}{}`, `{"uid":"`+strings.Repeat("u", 3000)+`"}`, "null x", m.bytes(50), strings.Repeat("[", 900))
	length := or(fmt.Sprint(len(body)), "-1", "x", "99999999999999999999", fmt.Sprint(len(body)+1))
	return method + " " + path + " " + version + "\r\n" + host + "\r\n" + caller + "\r\nConnection: close\r\nContent-Length: " + length + "\r\n\r\n" + body
}

// path is a path at which there is nothing.
func (m malformed) path() string {
	segment := func() string {
		return m.one("..", ".", "", "%2e%2e", "%2F", "a%00b", "%zz", "P", "-", "_", strings.Repeat("x", 300), "%ff%fe", "é", "x?y", "x#y", m.bytes(8))
	}
	return m.one(
		"/v2/pods/"+segment()+"/"+segment(),
		"/v2/pods/"+segment()+"/"+segment()+"/upgrade"+m.one("", "?when=connected", "?when=", "?when=%zz", "?"+m.bytes(9)),
		"/v2/pods/default/q/upgrade?when="+m.one("", "%zz", "tomorrow", "connected"),
		"/v2/pods/default/p/"+m.one("upgrades", "Upgrade", "upgrade/", "/upgrade", "%75pgrade/x"),
		"/openyurt.io/v1/namespaces/"+segment()+"/pods/"+segment()+"/"+m.one("x", "imagepulls", "upgrade/"),
		"/openyurt.io/v1/namespaces/default/pods/"+m.one("P", "%2F", "a%00b", strings.Repeat("x", 300))+"/"+m.one("upgrade", "imagepull"),
		"/v2//pods", "/v2/../pods/x", "//pods", "/pods/", "*", "", "http://evil.example/pods", "/v2/"+segment(), m.bytes(30))
}

// Requests that no client sends. Each is answered with what is wrong with it, or cut off by the library, which is what it does with
// what is no HTTP; nothing is deleted, nothing is asked for, and the server is there afterwards.
func TestThousandMalformedRequests(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	before := w.pod("p").DeepCopy()
	m := malformed{rand.New(rand.NewPCG(2026, 5))}
	codes := map[int]int{}
	for i := range 1000 {
		text := m.request()
		code, err := w.send(text)
		if err != nil {
			t.Fatalf("request %d %q: %v", i, text, err)
		}
		asYurthub := code == 500 && strings.Contains(text, " /openyurt.io/") // which says so of a pod that there is not
		if codes[code]++; code != 0 && (code < 400 || code > 499) && !asYurthub {
			t.Errorf("request %d %q is answered %d", i, text, code)
		}
	}
	for _, code := range []int{400, 401, 404, 405, 413, 421} {
		if codes[code] == 0 {
			t.Errorf("no request is answered %d: %v", code, codes)
		}
	}
	t.Logf("answers by code, 0 is none: %v", codes)
	if len(w.deleted) > 0 || !reflect.DeepEqual(w.pod("p"), before) {
		t.Errorf("deleted are %q, the pod is %v", w.deleted, w.pod("p"))
	}
	if got := w.ask("GET", podPath, ""); got.code != 200 {
		t.Errorf("afterwards it answers %+v", got)
	}
}

// send writes bytes to the server and returns the code of the answer; 0 when there is none.
func (w *world) send(text string) (int, error) {
	conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	_, _ = io.WriteString(conn, text) // the server may have heard enough
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil //nolint:nilerr // no answer is an answer
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, nil
}

// FuzzAPI throws whatever the fuzzer finds at the handler. It must answer, with a code that there is, and delete no pod but for somebody on the
// node who says so: with the token of the node, or on a route of OpenYurt, which asks for none.
func FuzzAPI(f *testing.F) {
	f.Add("POST", deedPath, "Bearer "+ownerToken, "127.0.0.1", `{"uid":"uid-p"}`)
	f.Add("GET", "/v2/pods", "Bearer x", "localhost", "")
	f.Add("POST", "/openyurt.io/v1/namespaces/default/pods/p/upgrade", "", "127.0.0.1:1", "")
	f.Add("DELETE", "/v2/pods/%2e%2e/p/upgrade", "Bearer", "[::1]", "{")
	f.Fuzz(func(t *testing.T, method, target, authorization, host, body string) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader([]byte(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"))))
		if err != nil {
			t.Skip("it is no request")
		}
		r.Header.Set("Authorization", authorization)
		r.Body = io.NopCloser(strings.NewReader(body))
		p := daemonPod("p")
		w := &world{t: t, users: map[string]string{}, pods: map[types.NamespacedName]*corev1.Pod{nameOf(p): p}}
		api := New(Options{
			Node: "n1", Pods: w, Cluster: w, OpenYurt: true, Token: ownerToken, Decisions: noDecisions{}, Now: time.Now,
			Event: func(*corev1.Pod, string, string, string) {}, Limits: Limits{1e6, 1e6, 1e6, 1000},
		})
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, r)
		if answer.Code < 200 || answer.Code > 599 || answer.Code >= 300 && answer.Code < 400 {
			t.Errorf("%q %q is answered %d", method, target, answer.Code)
		}
		if len(w.deleted) > 0 && !asked(r) {
			t.Errorf("%q %q of %q deletes %q", method, target, r.Host, w.deleted)
		}
	})
}

// asked is whether a request may delete a pod.
func asked(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = strings.Trim(r.Host, "[]")
	}
	local := strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	shown := strings.HasPrefix(r.URL.Path, "/openyurt.io/") || strings.EqualFold(kind, "bearer") && strings.TrimSpace(token) == ownerToken
	return r.Method == http.MethodPost && local && shown
}
