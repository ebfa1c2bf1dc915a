// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/imageref"
)

// callTimeout bounds every call but a pull, which has the time that its context gives it.
const callTimeout = 10 * time.Second

// pulledBy is the annotation with which OpenKruise marks its pulls. Some runtimes cannot do without a sandbox config that has
// annotations.
const pulledBy = "apps.kruise.io/pulling-image-by"

// Client talks to the runtime behind one socket. It may be used from several goroutines.
type Client struct {
	endpoint string
	measure  func(path string) (percent int, err error)

	mu     sync.Mutex
	images internalapi.ImageManagerService
}

// New returns a client for an endpoint such as unix:///run/containerd/containerd.sock. Nothing is connected yet.
func New(endpoint string) *Client {
	return &Client{endpoint: endpoint, measure: fillOf}
}

// connect returns the service; the first time it needs a runtime that answers.
func (c *Client) connect(ctx context.Context) (internalapi.ImageManagerService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images != nil {
		return c.images, nil
	}
	images, err := criclient.NewRemoteImageServiceBuilder().WithEndpoint(c.endpoint).WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).Build(quiet(ctx))
	if err != nil {
		return nil, fmt.Errorf("connecting to the container runtime: %w", err)
	}
	c.images = images
	return images, nil
}

// quiet keeps the library from logging what is returned to the caller anyway.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// Close ends the connection.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images == nil {
		return nil
	}
	images := c.images
	c.images = nil
	return images.Close(ctx)
}

// Image returns the ID of an image that is on the node, or "".
func (c *Client) Image(ctx context.Context, ref imageref.Full) (string, error) {
	images, err := c.connect(ctx)
	if err != nil {
		return "", err
	}
	answer, err := images.ImageStatus(quiet(ctx), &runtimeapi.ImageSpec{Image: ref.Name}, false)
	if err != nil {
		return "", fmt.Errorf("getting the status of image %s: %w", ref.Name, err)
	}
	return answer.GetImage().GetId(), nil
}

// Pull is one image to pull.
type Pull struct {
	Ref imageref.Full
	// Credentials are tried one after the other; without any the registry is asked without.
	Credentials []credentials.Credential
	// Labels and Annotations are those of the sandbox config that the runtime is given.
	Labels, Annotations map[string]string
	// By is who pulls, for the log of the runtime.
	By string
}

// Pull pulls an image and returns its ID. It takes as long as it takes: ctx ends it.
func (c *Client) Pull(ctx context.Context, p Pull) (string, error) {
	images, err := c.connect(ctx)
	if err != nil {
		return "", err
	}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{}, Labels: p.Labels, Annotations: map[string]string{pulledBy: p.By},
	}
	maps.Copy(sandbox.Annotations, p.Annotations)
	spec := &runtimeapi.ImageSpec{Image: p.Ref.Name}
	if len(p.Credentials) == 0 {
		return images.PullImage(quiet(ctx), spec, nil, sandbox)
	}
	var failed []error
	for _, credential := range p.Credentials {
		id, err := images.PullImage(quiet(ctx), spec, auth(credential), sandbox)
		if err == nil {
			return id, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil || IsAway(err) {
			break
		}
	}
	return "", onlyOnce(failed)
}

func auth(c credentials.Credential) *runtimeapi.AuthConfig {
	return &runtimeapi.AuthConfig{
		Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
	}
}

// onlyOnce joins errors, and says what is the same for several credentials once.
func onlyOnce(failed []error) error {
	seen, different := map[string]bool{}, []error{}
	for _, err := range failed {
		if !seen[err.Error()] {
			different = append(different, err)
		}
		seen[err.Error()] = true
	}
	if len(different) == 1 {
		return different[0]
	}
	return errors.Join(different...)
}

// IsAway is whether an error means that the runtime did not answer at all, or went away while it worked.
func IsAway(err error) bool { return status.Code(err) == codes.Unavailable }

// IsSilent is whether an error of a call with a time limit of its own means that the runtime is away or hangs. Of a pull it would say
// nothing about the runtime: what hangs there may be the registry.
func IsSilent(err error) bool { return IsAway(err) || status.Code(err) == codes.DeadlineExceeded }
