// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/spf13/pflag"
)

// Profile has the delays of a simulated node.
type Profile struct {
	// ImagePull is the duration of a pull; each node pulls an image once.
	ImagePull time.Duration
	// ContainerStart is the time from the presence of the image to the running container.
	ContainerStart time.Duration
	// ContainerReady is the time from running to ready; the initialDelaySeconds of a readiness probe are added.
	ContainerReady time.Duration
	// ContainerStop is the time that a container takes to end after its image was changed in place.
	ContainerStop time.Duration
	// PodStop is the time that a deleted pod takes to end, at most its grace period.
	PodStop time.Duration
	// InitRun is how long an init container runs.
	InitRun time.Duration
	// CrashAfter is how long a crashing container runs.
	CrashAfter time.Duration
	// CrashBackOff is the delay before a second restart; it doubles up to CrashBackOffMax. The first restart is
	// immediate.
	CrashBackOff    time.Duration
	CrashBackOffMax time.Duration
	// ImageReport is how often a node reports newly pulled images in its status.
	ImageReport time.Duration
	// Jitter changes each of the delays above, except the last three, by up to this fraction. It is constant for a
	// container.
	Jitter float64
}

// Realistic is similar to a small node with a nearby registry.
func Realistic() Profile {
	return Profile{
		ImagePull:       2 * time.Second,
		ContainerStart:  300 * time.Millisecond,
		ContainerReady:  700 * time.Millisecond,
		ContainerStop:   500 * time.Millisecond,
		PodStop:         time.Second,
		InitRun:         500 * time.Millisecond,
		CrashAfter:      time.Second,
		CrashBackOff:    10 * time.Second,
		CrashBackOffMax: 5 * time.Minute,
		ImageReport:     10 * time.Second,
		Jitter:          0.2,
	}
}

// Fast has no delays, except for the back-off of crashing containers, which limits the load, and the report period of
// images, which is that of an idle kubelet, so that these writes do not affect measurements.
func Fast() Profile {
	return Profile{CrashBackOff: time.Second, CrashBackOffMax: 5 * time.Minute, ImageReport: 5 * time.Minute}
}

// Profiles returns the profiles by name.
func Profiles() map[string]Profile {
	return map[string]Profile{"realistic": Realistic(), "fast": Fast()}
}

// AddFlags adds a flag for each delay. The values of the profile are the defaults.
func (p *Profile) AddFlags(fs *pflag.FlagSet) {
	for _, f := range p.delays() {
		fs.DurationVar(f.value, f.name, *f.value, f.usage)
	}
	fs.Float64Var(&p.Jitter, flagJitter, p.Jitter, "spread of the simulated delays: a fraction from 0 to 1")
}

// Args returns the flags for this profile.
func (p Profile) Args() []string {
	var args []string
	for _, f := range p.delays() {
		args = append(args, fmt.Sprintf("--%s=%s", f.name, *f.value))
	}
	return append(args, fmt.Sprintf("--%s=%g", flagJitter, p.Jitter))
}

// Validate validates the profile.
func (p Profile) Validate() error {
	for _, f := range p.delays() {
		if *f.value < 0 {
			return fmt.Errorf("--%s is %s: a delay is 0 or more", f.name, *f.value)
		}
	}
	if p.Jitter < 0 || p.Jitter > 1 {
		return fmt.Errorf("--%s is %g: it is a fraction from 0 to 1", flagJitter, p.Jitter)
	}
	if p.CrashBackOff < time.Second {
		return fmt.Errorf("--sim-crash-backoff is %s: at least 1s, or a crashing pod keeps the whole machine busy", p.CrashBackOff)
	}
	return nil
}

const flagJitter = "sim-jitter"

type delayFlag struct {
	name  string
	value *time.Duration
	usage string
}

func (p *Profile) delays() []delayFlag {
	return []delayFlag{
		{"sim-image-pull", &p.ImagePull, "how long the simulated pull of an image takes, once per node and image"},
		{"sim-container-start", &p.ContainerStart, "how long a simulated container takes to start"},
		{"sim-container-ready", &p.ContainerReady, "how long a simulated container takes from running to ready"},
		{"sim-container-stop", &p.ContainerStop, "how long a simulated container takes to end when its image is changed in place"},
		{"sim-pod-stop", &p.PodStop, "how long a simulated pod takes to end, at most its grace period"},
		{"sim-init-run", &p.InitRun, "how long a simulated init container runs"},
		{"sim-crash-after", &p.CrashAfter, "how long a simulated container runs before it crashes"},
		{"sim-crash-backoff", &p.CrashBackOff, "wait before the second restart of a crashing container, doubling"},
		{"sim-crash-backoff-max", &p.CrashBackOffMax, "longest wait between restarts of a crashing container"},
		{"sim-image-report", &p.ImageReport, "how often a simulated node reports newly pulled images"},
	}
}

// spread changes d by up to the profile's jitter. what determines the amount, so that it is deterministic.
func (p Profile) spread(d time.Duration, what string) time.Duration {
	if p.Jitter == 0 || d == 0 {
		return d
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(what))
	unit := float64(h.Sum32())/float64(1<<32)*2 - 1
	return d + time.Duration(unit*p.Jitter*float64(d))
}
