// SPDX-License-Identifier: Apache-2.0

package sim

const (
	waitFile       = "predownload/inplace.go"
	restartFile    = "dialect/kruise/restart.go"
	changesFile    = "dialect/kruise/inplace.go"
	imagesOfInRuns = "inplace,images"
)

// imageMutants are wrong about changes in place that wait for images, and about containers that restart, by the kinds of steps that every run has for them.
// There are none for the wait of a node that is held back, or that takes its turn after others: no run of the first 3400 seeds and
// no story has detected these mistakes. The tests of the package predownload do.
func imageMutants() map[string][]mutant {
	return map[string][]mutant{
		imagesOfInRuns: {
			{
				"a change in place does not wait for its image", "rollout/image.go", "if !n.ImageWait || over || t.changing {",
				"if n.ImageWait || !n.ImageWait || over || t.changing {", "image",
			},
			{"a wait for an image has no end", "predownload/wait.go", "\treturn w.until\n", "\treturn 0 * w.until\n", "liveness"},
			{"nodes without an agent wait for images", waitFile, "in.InPlace.Agents[in.Snapshot.Nodes[node].Name] > 0", "in.InPlace.Agents[in.Snapshot.Nodes[node].Name] >= 0", "image"},
			{
				"images are pulled on nodes that are held back", "predownload/decide.go", "case rollout.CauseSpec, rollout.CauseLimit, rollout.CausePlacement, rollout.CausePolicy:",
				"case rollout.CausePlacement:", "image",
			},
			{
				"a job that appears late stays", "controller/daemonset/predownload.go", "if was, jobless := c.orders.jobless[set]; jobless {",
				"if was, jobless := c.orders.jobless[set]; jobless && was == key {", "image",
			},
		},
		"inplace,readers": {
			{
				"a container restarts although what it reads stays", changesFile, "case !slices.ContainsFunc(read, func(path string) bool { return differs[path] }):",
				"case len(read) == 0 || len(differs) < 0:", "restart",
			},
			{"variables keep what they have read", changesFile, "append(restarts(from, to), readers...)", "append(restarts(from, to), readers[:0]...)", "restart"},
		},
		"inplace,restarts": {
			{
				"an agent has no time to restart a container", restartFile, "return rollout.RestartWithin + time.Duration(grace)*time.Second",
				"return time.Duration(min(grace, 1))", "needless",
			},
		},
	}
}
