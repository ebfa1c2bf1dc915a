// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/pki"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// KwokUser is the user of the simulated nodes. Its group gives it the request priority of real kubelets; its rights are
// in its own cluster role.
const KwokUser = "localplane:kwok"

// managerUser and its groups are those of the manager's service account, so that the manager has exactly the rights of
// Everynode's manifests.
const managerUser = "system:serviceaccount:everynode-system:everynode-manager"

// kubeletClientUser is the user of the API server for the kubelets of real nodes; a manifest of the plane gives it its
// rights.
const kubeletClientUser = "localplane:kubelet-client"

// managerGroup is a group of the process of one manager. It has no rights; an audit log shows with it which manager has
// written.
func managerGroup(name string) string { return "localplane:" + name }

// clients returns the users of the plane by the name of their kubeconfig.
func clients(in Inputs) map[string]pki.Request {
	users := map[string]pki.Request{
		AdminClient:       {Name: "localplane:admin", Groups: []string{"system:masters"}},
		ControllerManager: {Name: "system:kube-controller-manager"},
		Scheduler:         {Name: "system:kube-scheduler"},
		Kwok:              {Name: KwokUser, Groups: []string{"system:nodes"}},
	}
	for i := range max(in.Managers.Count, 1) {
		name := ManagerName(i)
		users[name] = pki.Request{Name: managerUser, Groups: []string{
			"system:serviceaccounts", "system:serviceaccounts:everynode-system", managerGroup(name),
		}}
	}
	return users
}

// IssueCredentials creates the certificates, keys and kubeconfigs of the plane.
func IssueCredentials(in Inputs) error {
	dir := in.Home.PKI()
	cluster, err := pki.LoadAuthority(dir, ClusterAuthority)
	if err != nil {
		return err
	}
	etcd, err := pki.LoadAuthority(dir, EtcdAuthority)
	if err != nil {
		return err
	}
	if _, err := pki.LoadKey(in.pki(ServiceAccountKey)); err != nil {
		return err
	}
	err = errors.Join(
		etcd.IssueTo(dir, EtcdServer, pki.Request{Name: "etcd", Hosts: []string{Loopback, "localhost"}}),
		etcd.IssueTo(dir, EtcdClient, pki.Request{Name: "kube-apiserver-etcd-client"}),
		cluster.IssueTo(dir, LoopbackServing, pki.Request{Name: "localplane", Hosts: []string{Loopback, "localhost"}}),
		cluster.IssueTo(dir, APIServerServing, pki.Request{Name: "kube-apiserver", Hosts: []string{
			Loopback, "localhost", realnode.GatewayAddress, ServiceIP, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}}),
		cluster.IssueTo(dir, AdminClient, clients(in)[AdminClient]),
	)
	if err != nil {
		return err
	}
	for name, who := range clients(in) {
		file := kubeconfig{server: in.APIServerURL(), path: in.KubeconfigFile(name)}
		if name == AdminClient {
			file.path = in.Home.Kubeconfig()
		}
		if err := file.write(cluster, who); err != nil {
			return err
		}
	}
	return errors.Join(issueRealNodes(in, cluster), writeAuditPolicy(in))
}

// kubeconfig is a file to write, with its API server.
type kubeconfig struct{ server, path string }

func (k kubeconfig) write(cluster *pki.Authority, who pki.Request) error {
	pair, err := cluster.Issue(who)
	if err != nil {
		return err
	}
	const context = "localplane"
	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: context,
		Clusters: map[string]*clientcmdapi.Cluster{
			context: {Server: k.server, CertificateAuthorityData: cluster.CertPEM},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			who.Name: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key},
		},
		Contexts: map[string]*clientcmdapi.Context{
			context: {Cluster: context, AuthInfo: who.Name, Namespace: "default"},
		},
	})
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", who.Name, err)
	}
	return home.WriteFile(k.path, raw)
}
