// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"everynode.dev/everynode/localplane"
)

// byOwner: the owner of a node upgrades the pod of a set with OnDelete through the API of the node, with its images pulled before; the
// pods of all other nodes stay, and the API refuses them.
func byOwner(s *stage) {
	s.run("spec: {updateStrategy: {type: OnDelete}}")
	before := s.uids()
	node, other := s.Nodes[0], s.Nodes[1]
	api, err := s.Cluster.Plane.ServeNodeAPI(s.Context(), node, "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	old := s.pod(node)
	path := "/v2/pods/" + s.Name + "/" + old.Name
	s.answers(api, http.MethodPost, path+"/upgrade", 409, `"reason":"UpToDate"`)

	s.apply(withImage(two))
	s.held(0)
	next := s.newest()
	s.shows(api, path, `"nextRevision":"`+next+`"`)
	for _, deed := range []string{"/upgrade", "/imagepull"} {
		s.answers(api, http.MethodPost, "/v2/pods/"+s.Name+"/"+s.pod(other).Name+deed, 403, `"reason":"ForeignNode"`)
	}
	s.answers(api, http.MethodPost, path+"/imagepull", 200, `"revision":"`+next+`"`)
	s.shows(api, path, `"images":{"state":"Ready","revision":"`+next+`"}`)
	s.samePods(before)

	s.recorder.Excuse(old.UID)
	s.answers(api, http.MethodPost, path+"/upgrade", 200, `"uid":"`+string(old.UID)+`","revision":"`+next+`"`)
	s.held(1, s.replaced(before, node))
	s.wantNodes(two, node)
	s.answers(api, http.MethodPost, path+"/upgrade", 404, `"reason":"NotFound"`)
	s.answers(api, http.MethodPost, "/v2/pods/"+s.Name+"/"+s.pod(node).Name+"/upgrade", 409, `"reason":"UpToDate"`)
	after := s.uids()
	for _, n := range s.Nodes[1:] {
		if after[n] != before[n] {
			s.t.Errorf("the pod of node %s was replaced", n)
		}
	}
	if err := s.Cluster.Plane.EndNodeAPI(s.Context(), node); err != nil {
		s.t.Error(err)
	}
}

// newest is the hash of the newest revision of the set.
func (s *stage) newest() string {
	all := s.View().Revisions()
	return all[len(all)-1].Labels["controller-revision-hash"]
}

// answers asks the API of a node until it reaches the cluster.
func (s *stage) answers(api localplane.NodeAPI, method, path string, code int, contains string) {
	s.t.Helper()
	var got int
	var body string
	var err error
	s.Poll("the node reaches the cluster", func() error { // which does not answer in time where the machine has too much to do
		if got, body, err = ask(s, api, method, path); got == http.StatusServiceUnavailable {
			return fmt.Errorf("it answers %s", body)
		}
		return nil
	})
	if err != nil || got != code || !strings.Contains(body, contains) {
		s.t.Fatalf("%s %s is answered %d %s %v, want %d with %s", method, path, got, body, err, code, contains)
	}
}

// shows waits until the API of a node shows that of a pod, which it knows from a watch.
func (s *stage) shows(api localplane.NodeAPI, path, contains string) {
	s.t.Helper()
	s.Poll("the node shows "+contains, func() error {
		code, body, err := ask(s, api, http.MethodGet, path)
		if err == nil && !strings.Contains(body, contains) {
			err = fmt.Errorf("it shows %d %s", code, body)
		}
		return err
	})
}

// ask sends a request with the token of the node.
func ask(s *stage, api localplane.NodeAPI, method, path string) (code int, body string, err error) {
	token, err := os.ReadFile(api.TokenFile)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(s.Context(), method, "http://"+api.Address+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), errors.Join(err, answer.Body.Close())
}
