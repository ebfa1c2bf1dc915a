// SPDX-License-Identifier: Apache-2.0

// Package fake is a container runtime for tests: an image service behind a socket, without images that have any content. What it
// does with a pull is for the test to say.
package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is the image service of a runtime. Make one with New, and set Answer before it is started.
type Runtime struct {
	runtimeapi.UnimplementedImageServiceServer
	// Answer says what becomes of a pull; nil is success at once. It may block, and ends when ctx does.
	Answer func(ctx context.Context, request *runtimeapi.PullImageRequest) error
	// Mountpoint is what the runtime says of its image file system.
	Mountpoint string

	mu     sync.Mutex
	images map[string]bool
	pulls  []*runtimeapi.PullImageRequest
	active int
	most   int
	server *grpc.Server
}

// New returns a runtime with some images.
func New(images ...string) *Runtime {
	r := &Runtime{images: map[string]bool{}, Mountpoint: "/"}
	for _, image := range images {
		r.images[image] = true
	}
	return r
}

// Start serves at a socket, which must not exist or be unused.
func (r *Runtime) Start(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of before: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterImageServiceServer(server, r)
	r.mu.Lock()
	r.server = server
	r.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // it ends with Stop, and has nothing to say then
	return nil
}

// Stop ends the runtime as a crash does: pulls get no answer.
func (r *Runtime) Stop() {
	r.mu.Lock()
	server := r.server
	r.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Pulls are the pulls that were asked for, in order.
func (r *Runtime) Pulls() []*runtimeapi.PullImageRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*runtimeapi.PullImageRequest{}, r.pulls...)
}

// Most is how many pulls went on at once at most.
func (r *Runtime) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// PullImage implements the service.
func (r *Runtime) PullImage(ctx context.Context, request *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	r.mu.Lock()
	r.pulls = append(r.pulls, request)
	r.active++
	r.most = max(r.most, r.active)
	r.mu.Unlock()
	var err error
	if r.Answer != nil {
		err = r.Answer(ctx, request)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	if err != nil {
		return nil, err
	}
	name := request.GetImage().GetImage()
	r.images[name] = true
	return &runtimeapi.PullImageResponse{ImageRef: id(name)}, nil
}

// ImageStatus implements the service.
func (r *Runtime) ImageStatus(_ context.Context, request *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := request.GetImage().GetImage()
	if !r.images[name] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: id(name), RepoTags: []string{name}, Size: 1}}, nil
}

// ImageFsInfo implements the service.
func (r *Runtime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: r.Mountpoint},
	}}}, nil
}

func id(name string) string { return "id-of-" + name }
