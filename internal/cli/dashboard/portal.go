// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
)

const (
	// checkPace is the time between two checks of the token and of the rights of a session. unverifiedFor is how
	// long a session continues while the cluster does not answer these checks.
	checkPace     = 15 * time.Second
	unverifiedFor = 10 * time.Minute
	// idleFor is how long a session continues without requests.
	idleFor = time.Hour
	// reviewPatience is the timeout of a token review, startPatience the timeout of the first read of the cluster.
	reviewPatience = 10 * time.Second
	startPatience  = time.Minute
	// mostReviews is the maximum number of tokens that are checked at a time, mostReviewsOfClient that of those of one address: the others are left for other clients.
	// mostReviewsWaiting is how many more of one address wait. The tokens of sessions are checked apart from these.
	mostReviews         = 8
	mostReviewsOfClient = 6
	mostReviewsWaiting  = 32
	// refusedFor is how long a token that the cluster has not accepted is not checked again, mostRefused how many of these are remembered.
	refusedFor  = 10 * time.Second
	mostRefused = 1000
	// mostOfUser is the maximum number of sessions of one user.
	mostOfUser = 3
	// mostOfSession is the maximum number of entries that a session records.
	mostOfSession = mostEntries / 4
	// anonymous is the user of requests without credentials.
	anonymous = "system:anonymous"
)

var (
	errNoToken   = errors.New("sign in with a token of the cluster")
	errToken     = errors.New("the cluster does not accept the token: it is wrong, or has expired. Sign in with another one")
	errNoCluster = errors.New("the cluster does not answer: try again later")
	errOfUser    = errors.New("you have too many sessions with different tokens or namespaces: sign out, or close windows of the dashboard")
	errFull      = errors.New("the dashboard serves as many users as it may: try again later")
	errSignedOut = errors.New("the user has signed out")
	errIdle      = errors.New("there was no request for long")
	errReplaced  = errors.New("another session needed its place")
)

// portal lets many users in. Each bearer token has a session of its own, which reads with this token, and shares nothing with the other sessions.
type portal struct {
	gate
	o     *options.Options
	verbs func(*options.Options) *cobra.Command
	// clients returns clients with the rights of a token.
	clients func(token string) (*options.Clients, error)
	// ctx is the context of the program: sessions outlive the request that begins them.
	ctx context.Context
	// reviews are the places of checks of tokens without a session, which take turns by the addresses of clients.
	reviews *turns
	// turns are the places of plans, of all sessions.
	turns *turns
	// pace is the time between two checks of a session, most the maximum number of sessions.
	pace time.Duration
	most int

	mu       sync.Mutex
	sessions map[sessionKey]*session
	// refused is when tokens were not accepted, by their digests.
	refused map[[sha256.Size]byte]time.Time
	running sync.WaitGroup
}

// sessionKey names a session: the digest of a token, and the namespace to show, which is empty for all.
type sessionKey struct {
	token     [sha256.Size]byte
	namespace string
}

// session is a token, and what is served with it.
type session struct {
	key     sessionKey
	user    string
	clients *options.Clients
	ctx     context.Context
	end     context.CancelCauseFunc
	// started is closed when server, or err, is set.
	started chan struct{}
	server  *server
	data    http.Handler
	err     error
	// requests are in progress; used is when the last one ended. portal.mu guards them.
	requests int
	used     time.Time
}

// enter returns the session of a token and a namespace, for a client. It begins it if there is none. leave must be called.
func (p *portal) enter(ctx context.Context, client, token, namespace string) (s *session, leave func(), err error) {
	key := sessionKey{sha256.Sum256([]byte(token)), namespace}
	if s = p.join(key); s == nil {
		clients, err := p.clients(token)
		if err != nil {
			return nil, nil, err
		}
		user, err := p.admit(ctx, client, token, func(ctx context.Context) (string, error) { return p.mayBegin(ctx, clients, namespace) })
		if err == nil {
			s, err = p.begin(key, user, clients)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	leave = sync.OnceFunc(func() { p.leave(s) })
	select {
	case <-s.started:
		err = s.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s, leave, nil
}

// mayBegin returns the user of a token, and an error if the user lacks the rights for a session: then no session of another user ends for it.
func (p *portal) mayBegin(ctx context.Context, clients *options.Clients, namespace string) (user string, err error) {
	if user, err = p.review(ctx, clients); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	return user, inspect.MayWatchSets(ctx, clients, namespace) //nolint:wrapcheck // it names the right
}

// join returns a session that runs, or nil.
func (p *portal) join(key sessionKey) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[key]
	if s != nil {
		s.requests++
	}
	return s
}

func (p *portal) leave(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.requests, s.used = s.requests-1, p.o.Now()
}

// begin begins a session, unless another request has done it meanwhile.
func (p *portal) begin(key sessionKey, user string, clients *options.Clients) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[key]; s != nil {
		s.requests++
		return s, nil
	}
	if err := p.makeRoom(user); err != nil {
		return nil, err
	}
	s := &session{key: key, user: user, clients: clients, started: make(chan struct{}), requests: 1, used: p.o.Now()}
	s.ctx, s.end = context.WithCancelCause(p.ctx)
	p.sessions[key] = s
	p.running.Go(func() { p.run(s) })
	return s, nil
}

// makeRoom ends a session without requests if there are too many: one of the user, or one of all. The one that was used least recently goes.
func (p *portal) makeRoom(user string) error {
	space := spaceOf(user)
	own := p.sessionsOf(func(s *session) bool { return s.user == user })
	ofSpace := p.sessionsOf(func(s *session) bool { return space != "" && spaceOf(s.user) == space })
	all := p.sessionsOf(func(*session) bool { return true })
	switch {
	case own.count >= mostOfUser:
		return p.replace(own.idle, errOfUser)
	case space != "" && all.busy+ofSpace.busy >= p.most:
		return errFull
	case all.count >= p.most:
		return p.replace(all.idle, errFull)
	}
	return nil
}

// spaceOf is the namespace of a service account; empty for other users. Its owner can create any number of service accounts, so together they get only as many places
// as they leave free for others.
func spaceOf(user string) string {
	account, _ := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, _, found := strings.Cut(account, ":")
	if !found || account == user {
		return ""
	}
	return namespace
}

// ownerOf is who takes turns for a user: the service accounts of a namespace have one owner.
func ownerOf(user string) string {
	if space := spaceOf(user); space != "" {
		return "system:serviceaccounts:" + space
	}
	return user
}

// share is how many sessions there are of some kind, and how many of them have requests; idle is the one without that was used least recently, nil if there is
// none.
type share struct {
	count, busy int
	idle        *session
}

func (p *portal) sessionsOf(kind func(*session) bool) (of share) {
	for _, s := range p.sessions {
		if !kind(s) {
			continue
		}
		of.count++
		switch {
		case s.requests > 0:
			of.busy++
		case of.idle == nil || s.used.Before(of.idle.used):
			of.idle = s
		}
	}
	return of
}

// replace ends an idle session, or returns err if there is none.
func (p *portal) replace(idle *session, err error) error {
	if idle == nil {
		return err
	}
	p.drop(idle, errReplaced)
	return nil
}

// drop ends a session: no request gets it any more, and those that have it end. p.mu must be held.
func (p *portal) drop(s *session, why error) {
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
	s.end(why)
}

// signOut ends the sessions of a token.
func (p *portal) signOut(token string) {
	digest := sha256.Sum256([]byte(token))
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.sessions {
		if key.token == digest {
			p.drop(s, errSignedOut)
		}
	}
}

// run serves a session until it ends.
func (p *portal) run(s *session) {
	log := klog.Background().WithValues("user", s.user, "namespace", s.key.namespace)
	if s.err = p.start(s); s.err != nil {
		p.mu.Lock()
		p.drop(s, s.err)
		p.mu.Unlock()
		close(s.started)
		log.Info("A session cannot begin", "reason", s.err.Error())
		return
	}
	log.Info("A session begins")
	close(s.started)
	why := p.attend(s)
	p.mu.Lock()
	p.drop(s, why)
	p.mu.Unlock()
	s.server.fleet.Wait()
	log.Info("A session has ended", "reason", why.Error())
}

// start reads the cluster with the token of a session.
func (p *portal) start(s *session) error {
	slow := time.AfterFunc(startPatience, func() { s.end(errNoCluster) })
	defer slow.Stop()
	var notes bytes.Buffer
	o := options.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: &notes})
	o.Version, o.Now, o.After, o.Given = p.o.Version, p.o.Now, p.o.After, s.clients
	o.Getenv = func(string) string { return "" }
	server := newServer(s.ctx, o, s.clients)
	server.turns, server.owner = p.turns, ownerOf(s.user)
	server.verbs, server.namespace, server.recorder.most = p.verbs, s.key.namespace, mostOfSession
	if err := server.watch(s.ctx); err != nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
		return err
	}
	o.ErrOut, server.leftOut = io.Discard, notes.String()
	s.server, s.data = server, server.data()
	return nil
}

// attend checks a session until it must end, and returns why. The API server checks the rights of a watch
// only when it begins, so a watch alone would continue with an expired token.
func (p *portal) attend(s *session) error {
	verified := p.o.Now()
	for wait(s.ctx, p.pace, nil) {
		now := p.o.Now()
		if p.idle(s, now) {
			return errIdle
		}
		user, err := p.review(s.ctx, s.clients)
		switch {
		case errors.Is(err, errToken), err == nil && user != s.user:
			return errToken
		case err == nil:
			verified = now
			if err := s.server.fleet.StillMay(s.ctx); err != nil {
				return err //nolint:wrapcheck // it names the right
			}
		case now.Sub(verified) >= unverifiedFor:
			return errNoCluster
		}
	}
	return context.Cause(s.ctx)
}

// idle reports whether a session was not used for long. Then no request gets it any more.
func (p *portal) idle(s *session, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.requests > 0 || now.Sub(s.used) < idleFor {
		return false
	}
	p.drop(s, errIdle)
	return true
}

// admit asks the cluster whose token it is, when it is the turn of the client, unless the cluster has just not accepted the token. So a client with wrong tokens does not keep
// others from signing in. ask asks the cluster.
func (p *portal) admit(ctx context.Context, client, token string, ask func(context.Context) (user string, err error)) (user string, err error) {
	digest := sha256.Sum256([]byte(token))
	if p.hasRefused(digest) {
		return "", errToken
	}
	bounded, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	release, err := p.reviews.take(bounded, client)
	switch {
	case errors.Is(err, errNoTurn):
		return "", errFull
	case err != nil:
		return "", errNoCluster
	}
	defer release()
	if user, err = ask(ctx); errors.Is(err, errToken) {
		p.refuse(digest)
	}
	return user, err
}

func (p *portal) hasRefused(digest [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.refused[digest]
	return known && p.o.Now().Sub(at) < refusedFor
}

// refuse remembers a token that was not accepted.
func (p *portal) refuse(digest [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	if len(p.refused) >= mostRefused {
		maps.DeleteFunc(p.refused, func(_ [sha256.Size]byte, at time.Time) bool { return now.Sub(at) >= refusedFor })
	}
	if len(p.refused) < mostRefused {
		p.refused[digest] = now
	}
}

// review asks the cluster whose token it is.
func (p *portal) review(ctx context.Context, clients *options.Clients) (user string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	answer, err := clients.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return "", errToken
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("the cluster does not let you ask who you are; the ClusterRole system:basic-user allows it: %w", err)
	case err != nil:
		if ctx.Err() == nil {
			klog.ErrorS(err, "Asking the cluster whose token it is")
		}
		return "", errNoCluster // the cause has addresses of the cluster
	case answer.Status.UserInfo.Username == "", answer.Status.UserInfo.Username == anonymous:
		return "", errToken
	}
	return answer.Status.UserInfo.Username, nil
}
