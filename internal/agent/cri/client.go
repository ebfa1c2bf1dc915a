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

// callTimeout is the timeout of every call except a pull, which is limited by its context.
const callTimeout = 10 * time.Second

// pulledBy is the annotation with which OpenKruise marks its pulls. Some runtimes require a sandbox config with
// annotations.
const pulledBy = "apps.kruise.io/pulling-image-by"

// Client is a client of the runtime at a socket. It is safe for concurrent use.
type Client struct {
	endpoint string
	measure  func(path string) (percent int, err error)

	mu         sync.Mutex
	images     internalapi.ImageManagerService
	containers internalapi.RuntimeService
}

// New returns a client for an endpoint such as unix:///run/containerd/containerd.sock. It connects on first use.
func New(endpoint string) *Client {
	return &Client{endpoint: endpoint, measure: fillOf}
}

// connect returns the service; the first call needs a running runtime.
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

// quiet prevents the library from logging errors that it also returns.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// Close ends the connections.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed []error
	if c.images != nil {
		failed = append(failed, c.images.Close(ctx))
	}
	if c.containers != nil {
		failed = append(failed, c.containers.Close(ctx))
	}
	c.images, c.containers = nil, nil
	return errors.Join(failed...)
}

// Image returns the ID of an image on the node, or "".
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

// Pull describes an image to pull.
type Pull struct {
	Ref imageref.Full
	// Credentials are tried one after the other; if there are none, the pull is anonymous.
	Credentials []credentials.Credential
	// Labels and Annotations are those of the sandbox config for the runtime.
	Labels, Annotations map[string]string
	// By is the client's name, for the log of the runtime.
	By string
}

// Pull pulls an image and returns its ID. It has no timeout but that of ctx.
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

// onlyOnce joins errors without duplicates: several credentials may lead to the same error.
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

// IsAway reports whether an error means that the runtime did not respond, or stopped during the call.
func IsAway(err error) bool { return status.Code(err) == codes.Unavailable }

// IsSilent reports whether an error of a call with its own timeout means that the runtime does not respond. Do not use
// it for a pull, because the registry may be the part that does not respond.
func IsSilent(err error) bool { return IsAway(err) || status.Code(err) == codes.DeadlineExceeded }
