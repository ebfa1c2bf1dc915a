// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"everynode.dev/everynode/test/harness"
)

const host = "everynode.example"

// logged is what a program has logged so far.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// inCluster is a dashboard as the chart starts it: with a certificate, and without any token.
type inCluster struct {
	t       *testing.T
	s       *harness.Space
	log     *logged
	address string
	client  *http.Client
}

func startInCluster(t *testing.T, s *harness.Space) *inCluster {
	t.Helper()
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.Cluster.Plane.RESTConfig())
	api, err := url.Parse(config.Host)
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": config.CAData}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &inCluster{t: t, s: s, log: &logged{}}
	command := exec.Command(filepath.Join(harness.BinDir(), "everynode-manager"), "dashboard", "--listen=127.0.0.1:0", "--hosts="+host,
		"--tls-cert-file="+filepath.Join(dir, "tls.crt"), "--tls-private-key-file="+filepath.Join(dir, "tls.key"), "--api-server-ca-file="+filepath.Join(dir, "ca.crt"))
	command.Env = []string{"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port()}
	command.Stderr = d.log
	if err := command.Start(); err != nil {
		t.Fatalf("%v (make build builds it)", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(command.Process.Signal(os.Interrupt), command.Wait()); err != nil {
			t.Errorf("it ends with %v: %s", err, d.log)
		}
	})
	s.Poll("it serves", func() error {
		found := regexp.MustCompile(`address="(127[^"]+)"`).FindStringSubmatch(d.log.String())
		if found == nil {
			return fmt.Errorf("it says %s", d.log)
		}
		d.address = "https://" + found[1]
		return nil
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	d.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}, ForceAttemptHTTP2: true}}
	t.Cleanup(d.client.CloseIdleConnections)
	return d
}

// user is a service account, with a token as a pod has it.
type user struct {
	*inCluster
	account, token string
	// cookies are those that the page has got.
	cookies []*http.Cookie
}

func (d *inCluster) user(account string) *user {
	d.t.Helper()
	d.s.Kubectl("create", "serviceaccount", account)
	request, err := d.s.Cluster.Client.CoreV1().ServiceAccounts(d.s.Name).CreateToken(d.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return &user{inCluster: d, account: account, token: request.Status.Token}
}

// mayReadNodes binds the user to everynode-viewer.
func (u *user) mayReadNodes() (undo func()) {
	u.t.Helper()
	return u.bind("nodes-of-"+u.s.Name+"-"+u.account, "everynode-viewer")
}

// bind binds the user to a cluster role.
func (u *user) bind(name, role string) (undo func()) {
	u.t.Helper()
	return u.s.Apply(fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": %q},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %q},
		"subjects": [{"kind": "ServiceAccount", "namespace": %q, "name": %q}]}`, name, role, u.s.Name, u.account))
}

func (u *user) send(ctx context.Context, method, path, body string) *http.Response {
	u.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, u.address+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("X-Everynode-Dashboard", "1")
	r.Header.Set("Content-Type", "application/json")
	for _, c := range u.cookies {
		r.AddCookie(c)
	}
	answer, err := u.client.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	return answer
}

// signIn sends the token and a namespace, as the page does.
func (u *user) signIn(namespace string) int {
	u.t.Helper()
	answer := u.send(u.t.Context(), http.MethodPost, "/api/session", fmt.Sprintf(`{"token": %q, "namespace": %q}`, u.token, namespace))
	_ = answer.Body.Close()
	u.cookies = answer.Cookies()
	return answer.StatusCode
}

// answered is what requests are answered with, as far as it is looked at.
type answered struct {
	Error, Ask, User, Output string
	Items                    []struct {
		Key string `json:"k"`
	}
}

func (u *user) read(method, path, body string) (code int, a answered) {
	u.t.Helper()
	answer := u.send(u.t.Context(), method, path, body)
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil {
		u.t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	return answer.StatusCode, a
}

// sees are the sets of the list.
func (u *user) sees() string {
	u.t.Helper()
	code, a := u.read(http.MethodGet, "/api/sets", "")
	if code != http.StatusOK {
		return fmt.Sprintf("%d, asks for %q", code, a.Ask)
	}
	var keys []string
	for _, item := range a.Items {
		keys = append(keys, item.Key)
	}
	return strings.Join(keys, " ")
}

// TestInCluster starts the dashboard as the chart does, for users of different rights: each sees and changes what the own token allows, and a stream ends with its token.
func TestInCluster(t *testing.T) {
	c := shared.Cluster(t)
	other, s := c.Space(t, 1), c.Space(t, 2)
	other.Run("other", harness.WithBudget("1", "0"))
	s.Run(set, harness.WithBudget("1", "0"))
	d := startInCluster(t, s)
	everything, one, nothing := d.user("everything"), d.user("one"), d.user("nothing")
	defer everything.mayReadNodes()()
	defer everything.bind("all-of-"+s.Name, "view")()
	defer one.mayReadNodes()()
	s.Kubectl("create", "rolebinding", "edit-of-one", "--clusterrole=edit", "--serviceaccount="+s.Name+":one")
	own, others := s.Name+"/daemonset/"+set, other.Name+"/daemonset/other"

	if got := (&user{inCluster: d}).sees(); got != `401, asks for "token"` {
		t.Errorf("without a token: %s", got)
	}
	if code := (&user{inCluster: d, token: "wrong"}).signIn(""); code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", code)
	}
	for name, c := range map[string]struct {
		*user
		namespace, want string
	}{
		"all namespaces": {everything, "", own}, "no rights for all": {one, "", `403, asks for "namespace"`}, "no rights": {nothing, s.Name, `403, asks for "namespace"`},
		"the namespace of another": {one, other.Name, `403, asks for "namespace"`},
	} {
		if code := c.signIn(c.namespace); code != http.StatusNoContent {
			t.Errorf("%s: signing in is answered with %d", name, code)
		}
		if got := c.sees(); !strings.Contains(got, c.want) {
			t.Errorf("%s: sees %s, want %s", name, got, c.want)
		}
	}
	if code := one.signIn(s.Name); code != http.StatusNoContent || one.sees() != own {
		t.Errorf("signing in for a namespace: %d, sees %s", code, one.sees())
	}
	if got := everything.sees(); !strings.Contains(got, others) {
		t.Errorf("who may read everything sees %s", got)
	}
	d.changes(everything, one, others)
	d.revoked(one)
	for _, u := range []*user{everything, one, nothing} {
		if secret := u.token[strings.LastIndex(u.token, ".")+1:]; strings.Contains(d.log.String(), secret) {
			t.Errorf("the log has the token of %s", u.account)
		}
	}
	if !strings.Contains(d.log.String(), `user="system:serviceaccount:`+s.Name+`:one"`) {
		t.Errorf("the log names no user: %s", d.log)
	}
}

// changes: one may change the set, the other may not, and neither may do it in the name of the other.
func (d *inCluster) changes(reader, editor *user, others string) {
	d.t.Helper()
	body := `{"verb": "set-image", "namespace": "` + d.s.Name + `", "set": "daemonset/` + set + `", "arguments": ["*=` + harness.Image2 + `"]}`
	if _, a := reader.read(http.MethodPost, "/api/verb", body); !strings.Contains(a.Error, `ask for the verb "patch"`) || image(d.t, d.s) != harness.Image {
		d.t.Errorf("who may only read: %+v, and the image is %s", a, image(d.t, d.s))
	}
	if _, a := editor.read(http.MethodPost, "/api/verb", body); a.Error != "" || image(d.t, d.s) != harness.Image2 {
		d.t.Errorf("who may edit: %+v, and the image is %s", a, image(d.t, d.s))
	}
	namespace, _, _ := strings.Cut(others, "/")
	for _, path := range []string{"/api/set", "/api/set/stream", "/api/set/past"} {
		if code, a := editor.read(http.MethodGet, path+"?namespace="+namespace+"&set=daemonset/other", ""); code != http.StatusNotFound {
			d.t.Errorf("%s of a set in another namespace: %d %+v", path, code, a)
		}
	}
}

// revoked: a stream ends when its token is not valid any more, although nothing is written to it and its watches go on.
func (d *inCluster) revoked(u *user) {
	d.t.Helper()
	answer := u.send(d.t.Context(), http.MethodGet, "/api/set/stream?namespace="+d.s.Name+"&set=daemonset/"+set, "")
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewReaderSize(answer.Body, 1<<20)
	if first, err := lines.ReadString('\n'); err != nil || answer.ProtoMajor != 2 || !strings.Contains(first, d.s.Nodes[0]) {
		d.t.Fatalf("the stream begins by %s with %q, %v", answer.Proto, first, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, lines) // until the server ends it
	}()
	d.s.Kubectl("delete", "serviceaccount", u.account)
	d.s.Poll("the stream of a token that is not valid any more ends", func() error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it goes on")
		}
	})
	if code, a := u.read(http.MethodGet, "/api/sets", ""); code != http.StatusUnauthorized || a.Ask != "token" {
		d.t.Errorf("after it: %d %+v", code, a)
	}
}
