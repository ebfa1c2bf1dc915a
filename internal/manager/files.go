// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/controller/analyses"
	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/controller/notifications"
)

// followers read the files that name servers again when they change.
func (l *leader) followers(o *options, c clock.WithTicker) (all []*endpoint.Follower) {
	follow := func(flag, file string, names func(content []byte) []string, use func(content []byte) error) {
		if file != "" {
			all = append(all, &endpoint.Follower{Flag: flag, File: file, Clock: c, Names: names, Use: use, Current: l.metrics.FileCurrent})
		}
	}
	follow("analysis-providers", o.analysisProviders, analyses.Files, func(content []byte) error {
		providers, err := analyses.ParseProviders(content)
		if err == nil {
			l.analyses.Replace(providers)
			l.policies.Recheck()
		}
		return err
	})
	follow("notification-targets", o.notificationTargets, notifications.Files, func(content []byte) error {
		targets, err := notifications.ParseTargets(content)
		if err == nil {
			l.metrics.MayNotify(targets.Names(), notifications.Results())
			l.notices.Replace(targets)
		}
		return err
	})
	return all
}
