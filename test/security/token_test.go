// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/test/harness"
)

// managerWithToken runs one more manager, which does not lead, with a token as a pod has it: those of the plane have certificates. It returns the part
// of the token that nobody may know, and what that manager has logged when it had shown the token often.
func (w *world) managerWithToken(t *testing.T) (secret, log string) {
	t.Helper()
	_, account, _ := strings.Cut(strings.TrimPrefix(rbac.User(rbac.Manager), "system:serviceaccount:"), ":")
	request, err := w.client.CoreV1().ServiceAccounts(everynode.Namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, c := request.Status.Token, rest.AnonymousClientConfig(w.RESTConfig())
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData, CertificateAuthority: c.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	manager := exec.CommandContext(ctx, filepath.Join(harness.BinDir(), "everynode-manager"), "--kubeconfig="+kubeconfig, "--namespace="+everynode.Namespace,
		"--leader-elect", "--dialects=native", "--metrics-bind-address=0", "--health-probe-bind-address=0", "-v=10")
	manager.Stdout, manager.Stderr, manager.WaitDelay = file, file, time.Second
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = manager.Wait() // it says that it was killed
	}()
	w.until("requests with the token in the log", func() error {
		data, err := os.ReadFile(file.Name())
		if log = string(data); err == nil && strings.Count(log, "Bearer <masked>") < 5 {
			err = errors.New("there are few: " + log[max(0, len(log)-1000):])
		}
		return err
	})
	return token[strings.LastIndex(token, ".")+1:], log
}
