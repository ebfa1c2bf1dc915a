// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Fill returns the usage of the image file system of the runtime in percent; if there are several, the highest.
func (c *Client) Fill(ctx context.Context) (int, error) {
	images, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := images.ImageFsInfo(quiet(ctx))
	if err != nil {
		return 0, fmt.Errorf("getting the usage of the image file system: %w", err)
	}
	highest := -1
	for _, fs := range answer.GetImageFilesystems() {
		percent, err := c.measure(fs.GetFsId().GetMountpoint())
		if err != nil {
			return 0, err
		}
		highest = max(highest, percent)
	}
	if highest < 0 {
		return 0, errors.New("the container runtime does not report an image file system")
	}
	return highest, nil
}

// fillOf returns the usage of the file system of a path. Free space is what users other than root can use, as in the
// kubelet.
func fillOf(path string) (int, error) {
	info := unix.Statfs_t{}
	if err := unix.Statfs(path, &info); err != nil {
		return 0, fmt.Errorf("reading the usage of %s: %w (an agent in a container needs that directory mounted at the same path)", path, err)
	}
	if info.Blocks == 0 {
		return 0, fmt.Errorf("reading the usage of %s: its file system has no size", path)
	}
	return 100 - int(info.Bavail*100/info.Blocks), nil
}
