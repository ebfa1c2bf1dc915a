// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/clustercache"
)

var pods = corev1.Resource("pods")

// answered is an answer of a server with that code, and no more to it.
func answered(code int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code)}}
}

// broken is what the client returns when the network failed during that operation.
func broken(op string, err syscall.Errno) error {
	return &url.Error{Op: "Post", URL: "https://127.0.0.1/", Err: &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}}
}

// terminating is how the API server refuses a create in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(pods, "p", errors.New("namespace ns is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// denies is the answer of a webhook that says no with that code, and when to ask again.
func denies(code int) error {
	err := apierrors.NewTooManyRequests(`admission webhook "w" denied the request: no`, 1)
	err.ErrStatus.Code = int32(code)
	return err
}

func TestAdmissionIsNoStrain(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests} {
		if err := denies(code); LoadOf(err) != Unknown || IsBusy(err) || TimedOut(err) {
			t.Errorf("a webhook that answers %d counts as a server that has no room", code)
		}
	}
}

func TestTimedOut(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"408":              {answered(http.StatusRequestTimeout), true},
		"504":              {apierrors.NewTimeoutError("late", 1), true},
		"500":              {apierrors.NewInternalError(errors.New("etcd")), false},
		"own deadline":     {context.DeadlineExceeded, true},
		"read timed out":   {broken("read", syscall.ETIMEDOUT), true},
		"connection reset": {broken("read", syscall.ECONNRESET), false},
		"nothing":          {nil, false},
	} {
		if got := TimedOut(wrapped(test.err)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestSlowStartOfWhatIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		creates, first int
		refused        []int // in each batch
		batches        []int
		skipped, size  int
	}{
		"the first one":        {20, 1, []int{1}, []int{1}, 19, 2},
		"all of a later batch": {20, 1, []int{0, 0, 4}, []int{1, 2, 4}, 13, 8},
		"some of a batch":      {20, 1, []int{0, 1, 0}, []int{1, 2, 2, 4, 8, 3}, 0, 16},
		"some of each":         {9, 2, []int{1, 1, 1, 1, 1}, []int{2, 2, 2, 2, 1}, 0, 4},
		"all of many":          {90, 30, []int{30}, []int{30}, 60, 32},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSlowStart(test.creates, test.first)
			var batches []int
			skipped := 0
			for n := s.Next(1000); n > 0; n = s.Next(1000) {
				batches = append(batches, n)
				if i := len(batches) - 1; i < len(test.refused) && test.refused[i] > 0 {
					skipped += s.Refuse(min(test.refused[i], n), n)
				}
			}
			if !slices.Equal(batches, test.batches) || skipped != test.skipped || s.Size() != test.size {
				t.Errorf("batches %v, %d left out and %d next, want %v, %d and %d", batches, skipped, s.Size(), test.batches, test.skipped, test.size)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		err            error
		create, delete Answer
	}{
		"no error":           {nil, Done, Done},
		"400":                {apierrors.NewBadRequest("no"), Refused, Refused},
		"401":                {apierrors.NewUnauthorized("no"), Refused, Refused},
		"403":                {apierrors.NewForbidden(pods, "p", errors.New("quota")), Refused, Refused},
		"404":                {apierrors.NewNotFound(pods, "p"), Refused, Gone},
		"408":                {answered(http.StatusRequestTimeout), Unclear, Unclear},
		"409, exists":        {apierrors.NewAlreadyExists(pods, "p"), Exists, Refused},
		"409, conflict":      {apierrors.NewConflict(pods, "p", errors.New("the UID differs")), Refused, Differs},
		"409, of a webhook":  {answered(http.StatusConflict), Refused, Differs},
		"422":                {answered(http.StatusUnprocessableEntity), Refused, Refused},
		"429, no room":       {apierrors.NewTooManyRequests("later", 1), Busy, Busy},
		"429, of a webhook":  {answered(http.StatusTooManyRequests), Refused, Refused},
		"499":                {answered(499), Refused, Refused},
		"500":                {apierrors.NewInternalError(errors.New("etcd")), Unclear, Unclear},
		"502, of a proxy":    {answered(http.StatusBadGateway), Unclear, Unclear},
		"503":                {apierrors.NewServiceUnavailable("no"), Unclear, Unclear},
		"504":                {apierrors.NewTimeoutError("late", 1), Unclear, Unclear},
		"no code":            {answered(0), Unclear, Unclear},
		"namespace ends":     {terminating(), Ended, Refused},
		"connection refused": {broken("dial", syscall.ECONNREFUSED), Busy, Busy},
		"a webhook is down":  {apierrors.NewInternalError(errors.New(`failed calling webhook "w": no endpoints`)), Refused, Refused},
		"a webhook patches a DELETE": {
			apierrors.NewInternalError(errors.New(`admission webhook "w" attempted to modify the object, which is not supported for this operation`)), Refused, Refused,
		},
		"a webhook panics": {apierrors.NewInternalError(errors.New("ValidatingAdmissionWebhook/w has panicked: nil map")), Refused, Refused},
		"a patch of a webhook does not apply": {
			apierrors.NewInternalError(errors.New("add operation does not apply: doc is missing path: \"/spec/x/-\": missing value")), Refused, Refused,
		},
		"a patch of a webhook does not apply, before 1.32": {
			apierrors.NewInternalError(errors.New("jsonpatch add operation does not apply: doc is missing path: /spec/x/-: missing value")), Refused, Refused,
		},
		"a patch of a webhook removes what is not there": {
			apierrors.NewInternalError(errors.New("error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value")), Refused, Refused,
		},
		"a test in a patch of a webhook fails": {apierrors.NewInternalError(errors.New("testing value /spec/x failed: test failed")), Refused, Refused},
		"a patch of a webhook makes no pod": {
			apierrors.NewInternalError(errors.New("json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container")), Refused, Refused,
		},
		"a webhook says 500":  {denies(http.StatusInternalServerError), Refused, Refused},
		"a webhook says 504":  {denies(http.StatusGatewayTimeout), Refused, Refused},
		"a webhook says 404":  {denies(http.StatusNotFound), Refused, Refused},
		"a webhook says 409":  {denies(http.StatusConflict), Refused, Refused},
		"a webhook says 429":  {denies(http.StatusTooManyRequests), Refused, Refused},
		"connection reset":    {broken("read", syscall.ECONNRESET), Unclear, Unclear},
		"broken pipe":         {broken("write", syscall.EPIPE), Unclear, Unclear},
		"own deadline":        {context.DeadlineExceeded, Unclear, Unclear},
		"own end":             {context.Canceled, Unclear, Unclear},
		"something unheardof": {errors.New("?"), Unclear, Unclear},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{test.err, wrapped(test.err)} {
				if got := OfCreate(err); got != test.create {
					t.Errorf("create, %v: %s, want %s", err, got, test.create)
				}
				if got := OfDelete(err); got != test.delete {
					t.Errorf("delete, %v: %s, want %s", err, got, test.delete)
				}
			}
		})
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing: %w", err)
}

// TestAnswerNames pins the values of a metric label.
func TestAnswerNames(t *testing.T) {
	var got []string
	for a := Done; a <= Unclear; a++ {
		got = append(got, a.String())
	}
	if want := "done exists gone differs ended refused busy unclear"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSlowStart(t *testing.T) {
	for name, test := range map[string]struct {
		creates, first, failsIn int // the batch that fails, 0 for none
		batches                 []int
		skipped, size           int
	}{
		"nothing to do":         {0, 1, 0, nil, 0, 1},
		"one":                   {1, 1, 0, []int{1}, 0, 2},
		"twice as many always":  {250, 0, 0, []int{1, 2, 4, 8, 16, 32, 64, 123}, 0, 128},
		"exactly used up":       {7, 1, 0, []int{1, 2, 4}, 0, 8},
		"the first one fails":   {250, 1, 1, []int{1}, 249, 1},
		"a later one fails":     {250, 1, 3, []int{1, 2, 4}, 243, 1},
		"the last one fails":    {7, 1, 3, []int{1, 2, 4}, 0, 1},
		"the only create fails": {1, 1, 1, []int{1}, 0, 1},
		"as large as before":    {250, 128, 0, []int{128, 122}, 0, 256},
		"few show nothing":      {3, 8, 0, []int{3}, 0, 8},
		"a large one fails":     {250, 64, 1, []int{64}, 186, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSlowStart(test.creates, test.first)
			var batches []int
			skipped := 0
			for n := s.Next(1000); n > 0; n = s.Next(1000) {
				if batches = append(batches, n); len(batches) == test.failsIn {
					skipped += s.Fail()
				}
			}
			if !slices.Equal(batches, test.batches) || skipped != test.skipped || s.Size() != test.size {
				t.Errorf("batches %v, %d left out and %d next, want %v, %d and %d", batches, skipped, s.Size(), test.batches, test.skipped, test.size)
			}
		})
	}
}

// What was not sent as a whole, because there was no more time for it, shows nothing, and nothing against what has gone well before.
func TestSlowStartThatIsStopped(t *testing.T) {
	for name, test := range map[string]struct{ creates, first, stopsIn, size int }{
		"in the first batch":         {250, 1, 1, 1},
		"in a later one":             {250, 1, 4, 8},
		"in a large one":             {250, 8, 1, 8},
		"in one of few":              {3, 8, 1, 8},
		"in the last one of its own": {7, 1, 3, 4},
	} {
		s := NewSlowStart(test.creates, test.first)
		for range test.stopsIn {
			s.Next(1000)
		}
		s.Stop()
		if n := s.Next(1000); n != 0 || s.Size() != test.size {
			t.Errorf("%s: %d more, and %d next, want %d", name, n, s.Size(), test.size)
		}
	}
}

// A batch that was cut down shows nothing about the size that it would have had.
func TestSlowStartThatIsCutDown(t *testing.T) {
	s := NewSlowStart(30, 4)
	var batches []int
	for n := s.Next(100); n > 0; n = s.Next(8) {
		batches = append(batches, n)
	}
	if !slices.Equal(batches, []int{4, 8, 8, 8, 2}) || s.Size() != 16 {
		t.Errorf("batches %v and %d next", batches, s.Size())
	}
}

func TestCheck(t *testing.T) {
	wanted := Wanted{Owner: "set", Node: "n1", Hash: "h1"}
	for name, test := range map[string]struct {
		change func(*clustercache.Pod)
		stale  bool
		says   string // "" when it is the wanted one
	}{
		"the wanted one":      {func(*clustercache.Pod) {}, false, ""},
		"somebody else's":     {func(p *clustercache.Pod) { p.Owner = "other" }, false, "p is taken by a pod that this daemon set does not control"},
		"another group's":     {func(p *clustercache.Pod) { p.Advanced = true }, false, "does not control"},
		"nobody's":            {func(p *clustercache.Pod) { p.Owner = "" }, false, "does not control"},
		"another node's":      {func(p *clustercache.Pod) { p.Node = "n2" }, false, "p is taken by a pod of node n2"},
		"another revision's":  {func(p *clustercache.Pod) { p.Hash = "h2" }, false, "p is taken by a pod of revision h2"},
		"on its way out":      {func(p *clustercache.Pod) { p.Deleting = true }, true, "p is taken by a pod that is terminating"},
		"waiting is in vain":  {func(p *clustercache.Pod) { p.Deleting, p.Owner = true, "other" }, false, "does not control"},
		"not the same to say": {func(p *clustercache.Pod) { p.Deleting, p.Hash = true, "h2" }, false, "revision h2"},
	} {
		t.Run(name, func(t *testing.T) {
			found := clustercache.Pod{Name: "p", Owner: "set", Node: "n1", Hash: "h1"}
			test.change(&found)
			stale, err := wanted.Check(found)
			if stale != test.stale || (err == nil) != (test.says == "") || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("stale %v, error %v, want %v and %q", stale, err, test.stale, test.says)
			}
		})
	}
}

// A webhook or a policy can use the words of the API server, but not be taken for a quota.
func TestQuotaUsedUp(t *testing.T) {
	for text, c := range map[string]struct {
		err  error
		want bool
	}{
		"a quota is used up":             {apierrors.NewForbidden(pods, "a", errors.New("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3")), true},
		"a quota needs limits":           {apierrors.NewForbidden(pods, "a", errors.New("failed quota: q: must specify limits.cpu for: c")), false},
		"a policy of pod security":       {apierrors.NewForbidden(pods, "a", errors.New(`violates PodSecurity "restricted:latest"`)), false},
		"a webhook says it with a code":  {apierrors.NewForbidden(pods, "a", errors.New(`admission webhook "w" denied the request`)), false},
		"a webhook has the same message": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403, Message: `admission webhook "w" denied the request: pods "a" is forbidden: exceeded quota: q`}}, false},
		"a policy says it":               {apierrors.NewForbidden(pods, "a", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: it is forbidden: exceeded quota: q")), false},
		"no answer":                      {errors.New(`pods "a" is forbidden: exceeded quota: q`), false},
	} {
		if got := QuotaUsedUp(fmt.Errorf("creating a pod: %w", c.err)); got != c.want {
			t.Errorf("%s: %t, want %t", text, got, c.want)
		}
	}
}

// So is a LimitRange, alone or with several answers, with the words that a LimitRange has.
func TestBeyondLimits(t *testing.T) {
	for text, want := range map[string]bool{
		"exceeded quota: q, requested: limits.cpu=63, used: limits.cpu=1, limited: limits.cpu=2":                                      true,
		"maximum cpu usage per Container is 1, but limit is 2":                                                                        true,
		"[minimum memory usage per Container is 64Mi, but request is 1Mi, cpu max limit to request ratio per Pod is 2, but no limit]": true,
		"failed quota: q: must specify limits.cpu for: c":                                                                             false,
		`User "everynode" cannot patch resource "pods/resize" in API group "" in the namespace "ns"`:                                  false,
		"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: maximum cpu usage per Container is 1":                         false,
	} {
		if got := BeyondLimits(apierrors.NewForbidden(pods, "a", errors.New(text))); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	if BeyondLimits(nil) || BeyondLimits(errors.New(`pods "a" is forbidden: exceeded quota: q`)) {
		t.Error("no answer is taken for that of a quota")
	}
}

// Only an answer about the object itself counts as a denial of it.
func TestDenied(t *testing.T) {
	for text, c := range map[string]struct {
		err  error
		want bool
	}{
		"a webhook says no":          {apierrors.NewBadRequest(`admission webhook "w" denied the request: no`), true},
		"a quota does":               {apierrors.NewForbidden(pods, "a", errors.New("exceeded quota: q")), true},
		"a patch does not apply":     {apierrors.NewInternalError(errors.New(`add operation does not apply: doc is missing path: "/a"`)), true},
		"a webhook cannot be called": {apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)), false},
		"a webhook panics":           {apierrors.NewInternalError(errors.New("ValidatingAdmissionWebhook/w has panicked: no")), false},
		"the server is busy":         {apierrors.NewTooManyRequests("wait", 1), false},
		"there is no clear answer":   {apierrors.NewInternalError(errors.New("etcd")), false},
	} {
		if got := Denied(fmt.Errorf("creating a pod: %w", c.err)); got != c.want {
			t.Errorf("%s: %t, want %t", text, got, c.want)
		}
	}
}
