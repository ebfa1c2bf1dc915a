// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
)

const (
	podPath  = "/v2/pods/default/p"
	deedPath = podPath + "/upgrade"
	pullDeed = podPath + "/imagepull"
	keepPath = deedPath + "?when=connected"
)

func advanced(pod *corev1.Pod) {
	ownedBy("apps.kruise.io/v1beta1", "DaemonSet")(pod)
	silent(pod)
}

func TestV2(t *testing.T) {
	const False, True = corev1.ConditionFalse, corev1.ConditionTrue
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("policy"))
	for _, row := range []struct {
		name         string
		method, path string
		body         string
		pod          *corev1.Pod
		change       func(w *world)
		code         int
		// want is the reason of an error, and else a part of the body.
		want string
	}{
		{"upgrade", "POST", deedPath, "", daemonPod("p"), nil, 200, `{"namespace":"default","name":"p","uid":"uid-p","revision":"r2"}`},
		{"upgrade as named", "POST", deedPath, `{"uid":"uid-p","revision":"r2"}`, daemonPod("p"), nil, 200, `"revision":"r2"`},
		{"upgrade of another pod of that name", "POST", deedPath, `{"uid":"uid-q"}`, daemonPod("p"), nil, 409, "Changed"},
		{"upgrade to another revision", "POST", deedPath, `{"revision":"r3"}`, daemonPod("p"), nil, 409, "Changed"},
		{"upgrade of no pod", "POST", deedPath, "", nil, nil, 404, "NotFound"},
		{"upgrade of a foreign pod", "POST", deedPath, "", daemonPod("p", on("n2")), nil, 403, "ForeignNode"},
		{"upgrade of a pod that goes", "POST", deedPath, "", daemonPod("p", deleting), nil, 409, "Deleting"},
		{"upgrade of a new pod", "POST", deedPath, "", daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil, 409, "UpToDate"},
		{"upgrade without images", "POST", deedPath, "", daemonPod("p", imageReady(False, "", "controllerrevision: r2")), nil, 409, "ImagesNotReady"},
		{"upgrade of a pod of nobody", "POST", deedPath, "", daemonPod("p", ownedByNobody), nil, 409, "Unsupported"},
		{"upgrade of a pod of a StatefulSet", "POST", deedPath, "", daemonPod("p", ownedBy("apps/v1", "StatefulSet")), nil, 409, "Unsupported"},
		{"upgrade of a pod of somebody else's DaemonSet", "POST", deedPath, "", daemonPod("p", ownedBy("example.com/v1", "DaemonSet")), nil, 409, "Unsupported"},
		{"upgrade of a static pod", "POST", deedPath, "", daemonPod("p", ownedBy("v1", "Node")), nil, 409, "Unsupported"},
		{"upgrade of an Advanced DaemonSet's pod", "POST", deedPath, "", daemonPod("p", advanced), func(w *world) { w.next = "r9" }, 200, `"revision":"r9"`},
		{"upgrade when the set cannot be read", "POST", deedPath, "", daemonPod("p", advanced), func(w *world) { w.fail["NextAdvanced"] = errors.New("boom") }, 502, "ClusterFailed"},
		{"upgrade when the delete is refused", "POST", deedPath, "", daemonPod("p"), func(w *world) { w.fail["DeletePod"] = forbidden }, 502, "ClusterFailed"},
		{"upgrade when the pod has just gone", "POST", deedPath, "", daemonPod("p"), func(w *world) { w.fail["DeletePod"] = notFound("p") }, 409, "Deleting"},
		{"upgrade without the cluster", "POST", deedPath, "", daemonPod("p"), func(w *world) { w.down = true }, 503, "Disconnected"},
		{"upgrade at another time", "POST", deedPath + "?when=tomorrow", "", daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with a parameter that is none", "POST", deedPath + "?wen=connected", "", daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade at two times", "POST", deedPath + "?when=connected&when=tomorrow", "", daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with parameters that cannot be read", "POST", deedPath + "?when=connected;", "", daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with a body that is none", "POST", deedPath, "{", daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with an unknown field", "POST", deedPath, `{"uuid":"uid-p"}`, daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with two bodies", "POST", deedPath, `{} {}`, daemonPod("p"), nil, 400, "BadRequest"},
		{"upgrade with a long body", "POST", deedPath, `{"uid":"` + strings.Repeat("x", 2000) + `"}`, daemonPod("p"), nil, 413, "TooLarge"},

		{"imagepull", "POST", pullDeed, "", daemonPod("p"), nil, 200, `"images":{"state":"Pulling","revision":"r2"}`},
		{"imagepull again", "POST", pullDeed, "", daemonPod("p", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r2")), nil, 200, `"images":{"state":"Ready","revision":"r2"}`},
		{"imagepull of another pod of that name", "POST", pullDeed, `{"uid":"uid-q"}`, daemonPod("p"), nil, 409, "Changed"},
		{"imagepull of a new pod", "POST", pullDeed, "", daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil, 409, "UpToDate"},
		{"imagepull of a revision without a name", "POST", pullDeed, "", daemonPod("p", needUpgrade(True, "soon")), nil, 409, "Changed"},
		{"imagepull without the cluster", "POST", pullDeed, "", daemonPod("p"), func(w *world) { w.down = true }, 503, "Disconnected"},
		{"imagepull when it is refused", "POST", pullDeed, "", daemonPod("p"), func(w *world) { w.fail["SetCondition"] = forbidden }, 502, "ClusterFailed"},

		{"a pod", "GET", podPath, "", daemonPod("p"), nil, 200, `{"namespace":"default","name":"p","uid":"uid-p","owner":"DaemonSet.apps/nginx",` +
			`"phase":"Running","ready":true,"revision":"r1","nextRevision":"r2","images":{"state":"NotRequested"}}`},
		{"a new pod", "GET", podPath, "", daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil, 200, `"revision":"r1","images":{"state":"NotRequested"}}`},
		{"a pod whose images failed", "GET", podPath, "", daemonPod("p", imageReady(False, openyurt.PullImageFail, "pull image job x failed")), nil, 200,
			`"images":{"state":"Failed","message":"pull image job x failed"}`},
		{"a pod with older images", "GET", podPath, "", daemonPod("p", imageReady(True, openyurt.PullImageSuccess, "controllerrevision: r0")), nil, 200,
			`"images":{"state":"Outdated","revision":"r0"}`},
		{"a pod without the cluster", "GET", podPath, "", daemonPod("p"), func(w *world) { w.down = true }, 200, `"nextRevision":"r2"`},
		{"an Advanced DaemonSet's pod", "GET", podPath, "", daemonPod("p", advanced), func(w *world) { w.next = "r9" }, 200, `"nextRevision":"r9"`},
		{"no pod", "GET", podPath, "", nil, nil, 404, "NotFound"},
		{"a foreign pod", "GET", podPath, "", daemonPod("p", on("n2")), nil, 404, "NotFound"},
		{"a pod before anybody has looked", "GET", podPath, "", nil, func(w *world) { w.unseen = true }, 503, "Disconnected"},
		{"no decision", "GET", deedPath, "", daemonPod("p"), nil, 404, "NotFound"},
		{"no decision to withdraw", "DELETE", deedPath, "", daemonPod("p"), nil, 404, "NotFound"},
		{"a name that is none", "GET", "/v2/pods/default/P_", "", nil, nil, 400, "BadRequest"},
		{"a namespace that is none", "GET", "/v2/pods/a.b/p", "", nil, nil, 400, "BadRequest"},
		{"another method", "PUT", deedPath, "", daemonPod("p"), nil, 405, "MethodNotAllowed"},
		{"another path", "GET", "/v2/nodes", "", nil, nil, 404, "NotFound"},

		{"a decision about no pod", "POST", keepPath, "", nil, nil, 404, "NotFound"},
		{"a decision about another pod", "POST", keepPath, `{"uid":"uid-q"}`, daemonPod("p"), nil, 409, "Changed"},
		{"a decision for another revision", "POST", keepPath, `{"revision":"r3"}`, daemonPod("p"), nil, 409, "Changed"},
		{"a decision about a new pod", "POST", keepPath, "", daemonPod("p", needUpgrade(False, "controllerrevision: r1")), nil, 409, "UpToDate"},
		{"a decision about an Advanced DaemonSet's pod without the cluster", "POST", keepPath, "", daemonPod("p", advanced),
			func(w *world) { w.down = true }, 503, "Disconnected"},
		{"the same with its revision", "POST", keepPath, `{"revision":"r9"}`, daemonPod("p", advanced), func(w *world) { w.down = true }, 202, `"revision":"r9"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			if row.pod != nil {
				w.pods[nameOf(row.pod)] = row.pod
			}
			if row.change != nil {
				row.change(w)
			}
			got := w.ask(row.method, row.path, row.body)
			if got.code != row.code || got.contentType != "application/json" {
				t.Fatalf("it answers %+v, want %d", got, row.code)
			}
			if row.code < 300 {
				if !strings.Contains(got.body, row.want) {
					t.Errorf("it answers %s, want %s", got.body, row.want)
				}
				return
			}
			failed := v2.Error{}
			if err := json.Unmarshal([]byte(got.body), &failed); err != nil || string(failed.Reason) != row.want || failed.Code != row.code || failed.Message == "" {
				t.Errorf("it answers %s, want %s", got.body, row.want)
			}
			if len(w.deleted) > 0 {
				t.Errorf("deleted are %q", w.deleted)
			}
		})
	}
}

func TestAnswersAreCounted(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	codes := map[int]int{}
	w.begin(func(o *Options) { o.Answered = func(code int) { codes[code]++ } })
	w.ask("GET", podPath, "")
	w.ask("GET", "/pods", "")
	w.ask("GET", "/v2/pods/default/q", "")
	w.ask("POST", "/openyurt.io/v1/namespaces/default/pods/q/upgrade", "")
	w.server.Close() // it waits for the handlers
	if want := map[int]int{200: 2, 404: 1, 500: 1}; !maps.Equal(codes, want) {
		t.Errorf("counted are %v, want %v", codes, want)
	}
}

func TestListOfPods(t *testing.T) {
	other := daemonPod("q")
	other.Namespace = "other"
	w := newWorld(t, daemonPod("p"), other, daemonPod("far", on("n2")))
	w.users["ann's"], w.may = "ann", []string{"ann get default"}
	w.users["bob's"] = "bob"
	for token, want := range map[string]string{ownerToken: "p q", "ann's": "p", "bob's": ""} {
		got := w.ask(http.MethodGet, "/v2/pods", "", "Authorization", "Bearer "+token)
		list := v2.PodList{}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.code != 200 || list.Node != "n1" || !list.Connected {
			t.Fatalf("%s: %+v %v", token, got, err)
		}
		names := []string{}
		for _, pod := range list.Pods {
			names = append(names, pod.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s: it lists %q, want %s", token, names, want)
		}
	}
	w.fail["May"] = errors.New("boom")
	if got := w.ask(http.MethodGet, "/v2/pods", "", "Authorization", "Bearer ann's"); got.code != 502 {
		t.Errorf("when nobody can say what ann may do it answers %+v", got)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	for _, row := range []struct {
		name   string
		header string
		may    string
		change func(w *world)
		// read and write are the codes.
		read, write int
	}{
		{"the token of the node", "Bearer " + ownerToken, "", nil, 200, 200},
		{"the token of the node without the cluster", "Bearer " + ownerToken, "", func(w *world) { w.down = true }, 200, 503},
		{"in other letters", "bearer " + ownerToken, "", nil, 200, 200},
		{"no token", "", "", nil, 401, 401},
		{"an empty token", "Bearer ", "", nil, 401, 401},
		{"a password", "Basic " + ownerToken, "", nil, 401, 401},
		{"half of the token", "Bearer " + ownerToken[:5], "", nil, 401, 401},
		{"an unknown token", "Bearer x", "", nil, 401, 401},
		{"a token that may nothing", "Bearer ann's", "", nil, 403, 403},
		{"a token that may read", "Bearer ann's", "ann get default", nil, 200, 403},
		{"a token that may delete", "Bearer ann's", "ann delete default", nil, 403, 200},
		{"a token that may delete elsewhere", "Bearer ann's", "ann delete other", nil, 403, 403},
		{"a token without the cluster", "Bearer ann's", "ann delete default", func(w *world) { w.down = true }, 503, 503},
		{"when tokens cannot be reviewed", "Bearer ann's", "ann delete default", func(w *world) { w.fail["Review"] = errors.New("boom") }, 502, 502},
		{"when rights cannot be reviewed", "Bearer ann's", "ann delete default", func(w *world) { w.fail["May"] = errors.New("boom") }, 502, 502},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, daemonPod("p"))
			w.users["ann's"], w.may = "ann", []string{row.may}
			if row.change != nil {
				row.change(w)
			}
			for _, r := range []struct { // the upgrade comes last: with it the pod goes
				method, path string
				want         int
			}{{"GET", podPath, row.read}, {"POST", pullDeed, row.write}, {"POST", deedPath, row.write}} {
				if got := w.ask(r.method, r.path, "", "Authorization", row.header); got.code != r.want && !(r.want == 200 && got.code == 409) {
					t.Errorf("%s %s answers %+v, want %d", r.method, r.path, got, r.want)
				}
			}
		})
	}
}

// A node that has been taken over must not be able to use at others the tokens that it is sent.
func TestTokensAreForOneNode(t *testing.T) {
	for _, row := range []struct {
		name, audience string
		shared         bool
		want           int
	}{
		{"for this node", "everynode-agent/n1", false, 200},
		{"for another node", "everynode-agent/n2", false, 401},
		{"for a node whose name begins with that of this one", "everynode-agent/n11", false, 401},
		{"for all nodes", "everynode-agent", false, 401},
		{"for something else", "somebody-else", false, 401},
		{"for this node, where those for all count too", "everynode-agent/n1", true, 200},
		{"for another node, where those for all count too", "everynode-agent/n2", true, 401},
		{"for all nodes, where they count", "everynode-agent", true, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, daemonPod("p"))
			w.users["ann's"], w.audiences["ann's"], w.may = "ann", row.audience, []string{"ann get default"}
			w.begin(func(o *Options) { o.SharedAudience = row.shared })
			got := w.ask(http.MethodGet, podPath, "", "Authorization", "Bearer ann's")
			if got.code != row.want || got.code == 401 && !strings.Contains(got.body, "everynode-agent/n1") {
				t.Errorf("it answers %+v, want %d", got, row.want)
			}
		})
	}
}

func TestANodeWithoutATokenOfItsOwn(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.begin(func(o *Options) { o.Token = "" })
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer  "} {
		if got := w.ask(http.MethodGet, podPath, "", "Authorization", header); got.code != 401 {
			t.Errorf("%q: %+v", header, got)
		}
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	for host, good := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:10267": true, "localhost": true, "LocalHost:80": true, "[::1]": true, "[::1]:10267": true, "127.8.8.8": true,
		"evil.example": false, "evil.example:10267": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "10.0.0.1": false,
		"0.0.0.0": false, "[::]": false, "node-1": false,
	} {
		for _, request := range [][2]string{{"GET", "/pods"}, {"GET", podPath}, {"GET", "/v2/openapi.json"}} {
			if got := w.ask(request[0], request[1], "", "Host", host); (got.code == 200) != good || !good && got.code != http.StatusMisdirectedRequest {
				t.Errorf("%s %s: %d", host, request, got.code)
			}
		}
	}
	if got := w.ask("POST", upgradePath, "", "Host", "evil.example"); got.code != 421 || len(w.deleted) > 0 {
		t.Errorf("a page that calls itself this node gets %+v, deleted are %q", got, w.deleted)
	}
}

// A browser names the page that a request comes from; curl does not.
func TestPagesOfOtherOrigins(t *testing.T) {
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}, {"Origin", "null"}} {
		w := newWorld(t, daemonPod("p"))
		for _, path := range []string{upgradePath, deedPath} {
			if got := w.ask("POST", path, "", header...); got.code != http.StatusForbidden || len(w.deleted) > 0 {
				t.Errorf("%q: %+v, deleted are %q", header, got, w.deleted)
			}
		}
	}
}

func TestPace(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.users["ann's"], w.may = "ann", []string{"ann get default"}
	w.begin(func(o *Options) { o.Limits = Limits{Requests: 10, Changes: 2, Reviews: 1, BodyBytes: 100} })
	served := func(times int, method, path string, header ...string) (ok int) {
		for range times {
			switch got := w.ask(method, path, "", header...); {
			case got.code != http.StatusTooManyRequests:
				ok++
			case got.header.Get("Retry-After") != "1":
				t.Errorf("it does not say when: %v", got.header)
			}
		}
		return ok
	}
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d were served, want %d", what, got, want)
		}
	}
	check("reads", served(30, "GET", podPath), 20)
	w.now = w.now.Add(time.Second)
	check("reads after a second", served(30, "GET", podPath), 10)
	w.now = w.now.Add(time.Minute)
	check("changes", served(10, "POST", pullDeed), 4)
	check("reads beside them", served(5, "GET", podPath), 5)
	w.now = w.now.Add(time.Minute)
	check("questions about tokens", served(10, "GET", podPath, "Authorization", "Bearer ann's"), 3) // the first is that of a stranger
	check("the token of the node beside them", served(5, "GET", podPath), 5)
}

// Whoever has no token, or one that is none, uses up nobody's turns.
func TestStrangersDoNotKeepUsersOut(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.users["ann's"], w.may = "ann", []string{"ann get default", "ann delete default"}
	w.begin(func(o *Options) { o.Limits = Limits{Requests: 2, Changes: 1, Reviews: 1, BodyBytes: 100} })
	anns := []string{"Authorization", "Bearer ann's"}
	if got := w.ask("GET", podPath, "", anns...); got.code != 200 {
		t.Fatalf("ann is answered %+v", got)
	}
	flood := func(method, path string, header ...string) (codes map[int]int) {
		codes = map[int]int{}
		for range 20 {
			codes[w.ask(method, path, "", header...).code]++
		}
		return codes
	}
	for _, r := range []struct {
		what, method, path string
		header             []string
		want               map[int]int
	}{
		{"no token", "GET", podPath, []string{"Authorization", ""}, map[int]int{401: 4, 429: 16}},
		{"no token for a change", "POST", deedPath, []string{"Authorization", ""}, map[int]int{401: 2, 429: 18}},
		{"a token that is none", "POST", deedPath, []string{"Authorization", "Bearer x"}, map[int]int{401: 2, 429: 18}},
		{"what is open to all", "GET", "/v2/openapi.json", nil, map[int]int{200: 4, 429: 16}},
		{"the old routes", "POST", pullPath, nil, map[int]int{200: 2, 429: 18}},
		{"a path at which there is nothing", "GET", "/v2/nodes", nil, map[int]int{404: 4, 429: 16}},
		{"another method", "PUT", deedPath, nil, map[int]int{405: 2, 429: 18}},
	} {
		w.now = w.now.Add(time.Minute)
		asked, open := len(w.asked), r.want[401] == 0
		if got := flood(r.method, r.path, r.header...); !maps.Equal(got, r.want) {
			t.Errorf("%s: it answers %v, want %v", r.what, got, r.want)
		}
		if n := len(w.asked) - asked; n > 6 {
			t.Errorf("%s: the cluster is asked %d times", r.what, n)
		}
		if got := w.ask("GET", "/pods", "", "Authorization", ""); !open && got.code != 200 {
			t.Errorf("%s: whoever uses the old routes is answered %+v", r.what, got)
		}
		for caller, header := range map[string][]string{"the owner of the node": nil, "ann": anns} {
			if got := w.ask("GET", podPath, "", header...); got.code != 200 {
				t.Errorf("%s: %s is answered %+v", r.what, caller, got)
			}
			if got := w.ask("POST", deedPath, `{"uid":"another"}`, header...); got.code != 409 {
				t.Errorf("%s: a change of %s is answered %+v", r.what, caller, got)
			}
		}
	}
}

// What users of the cluster ask for does not keep the owner out.
func TestUsersDoNotKeepTheOwnerOut(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.users["ann's"], w.may = "ann", []string{"ann get default"}
	w.begin(func(o *Options) { o.Limits.Requests = 1 })
	for i, want := range []int{200, 200, 429} {
		if got := w.ask("GET", podPath, "", "Authorization", "Bearer ann's"); got.code != want {
			t.Errorf("request %d of ann is answered %+v", i, got)
		}
	}
	if got := w.ask("GET", podPath, ""); got.code != 200 {
		t.Errorf("the owner is answered %+v", got)
	}
}

// Tokens that were good are remembered up to a number, which a crowd of them does not grow.
func TestTokensThatWereGood(t *testing.T) {
	k := knownTokens{}
	for i := range 3 * maxKnownTokens {
		k.add(fmt.Sprint("token ", i))
	}
	if !k.has(fmt.Sprint("token ", 3*maxKnownTokens-1)) || k.has("token x") || len(k.old)+len(k.young) > maxKnownTokens {
		t.Errorf("%d and %d are remembered", len(k.old), len(k.young))
	}
	k.remove(fmt.Sprint("token ", 3*maxKnownTokens-1))
	if k.has(fmt.Sprint("token ", 3*maxKnownTokens-1)) {
		t.Error("a token that is good no more is remembered")
	}
}

// A page in a browser on the node cannot use up the changes that the owner may make.
func TestPagesOfOtherOriginsDoNotKeepTheOwnerOut(t *testing.T) {
	w := newWorld(t, daemonPod("p"))
	w.begin(func(o *Options) { o.Limits.Changes = 1 })
	for range 5 {
		if got := w.ask("POST", deedPath, "", "Origin", "https://evil.example"); got.code != 403 {
			t.Errorf("the page is answered %+v", got)
		}
	}
	if got := w.ask("POST", deedPath, ""); got.code != 200 {
		t.Errorf("the owner is answered %+v", got)
	}
}
