// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/dialects"
)

// leads has a pod hold the lease, whose containers have these arguments.
func (l *leased) leads(pod string, args ...string) {
	l.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.other.Namespace, Name: pod}}
	for _, one := range args {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Command: []string{"/usr/local/bin/yurt-manager"}, Args: strings.Fields(one)})
	}
	p.Spec.HostNetwork = strings.HasPrefix(pod, "host")
	if _, err := l.client.CoreV1().Pods(p.Namespace).Create(l.t.Context(), p, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.renew(pod+"_0b8f6a5e", 0)
}

// TestAManagerWithoutTheControllerIsNoRival: yurt-manager does much else, and may go on with that.
func TestAManagerWithoutTheControllerIsNoRival(t *testing.T) {
	for _, lease := range dialects.PeerOf(dialects.OpenYurt).Leases {
		l := newLeasedBy(t, dialects.PeerOf(dialects.OpenYurt))
		l.lease = lease
		l.leads("yurt-manager-a", "--controllers=*")
		l.run()
		l.wants(false)
		l.leads("yurt-manager-b", "--controllers=-daemonpodupdater,*")
		l.step()
		l.wants(true)
		if l.settled.Load() == 0 {
			t.Error("nobody has waited for the last writes of the one before")
		}
		l.leads("yurt-manager-c", "--controllers=-daemonpodupdater,*", "--controllers=*")
		l.step()
		l.wants(false)
		l.leads("yurt-manager-d", "--v=2", "--controllers=-daemonpodupdater,*")
		l.step()
		l.wants(true)
		l.renew("yurt-manager-e_0b8f6a5e", 0) // a process, or a pod that is gone
		l.step()
		l.wants(false)
		l.leads("yurt-manager-f", "--controllers=-daemonpodupdater,*")
		l.step()
		l.wants(true)
		l.leads("host", "--controllers=-daemonpodupdater,*")
		l.step()
		l.wants(false)
	}
}

// TestAllLeasesCount: who has changed the name of the lease may have left the old one behind.
func TestAllLeasesCount(t *testing.T) {
	l := newLeasedBy(t, dialects.PeerOf(dialects.OpenYurt))
	l.leads("yurt-manager-a", "--controllers=-daemonpodupdater,*")
	l.lease = dialects.PeerOf(dialects.OpenYurt).Leases[1]
	l.leads("yurt-manager-b", "--controllers=*")
	l.run()
	l.wants(false)
}

func TestAPodThatCannotBeReadChangesNothing(t *testing.T) {
	const off = "yurt-manager-b_0b8f6a5e"
	l := newLeasedBy(t, dialects.PeerOf(dialects.OpenYurt))
	unreadable := atomic.Bool{}
	l.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return unreadable.Load(), nil, errors.New("connection refused")
	})
	l.leads("yurt-manager-a", "--controllers=*")
	l.run()
	l.wants(false)
	unreadable.Store(true)
	l.leads("yurt-manager-b", "--controllers=-daemonpodupdater,*")
	l.step()
	l.renew(off, 0)
	l.step() // the look before it has ended
	if l.guard.MayWrite() {
		t.Error("may write, but it is not known what the other does")
	}
	unreadable.Store(false)
	l.renew(off, 0)
	l.step()
	l.wants(true)
}

// TestOpenKruiseIsOneWhole: there is no controller of it that could be switched off for this.
func TestOpenKruiseIsOneWhole(t *testing.T) {
	l := newLeased(t)
	l.leads("kruise-controller-manager-a", "--controllers=-daemonpodupdater,*")
	l.run()
	l.wants(false)
}
