// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"maps"
	"strings"
)

// WithDefaults returns a copy of a template with the defaults that the API server sets for absent fields
// (k8s.io/kubernetes, pkg/apis/core/v1/defaults.go, as of 1.37). OpenKruise stores templates without these defaults,
// and sets that pass our webhooks have them; both have the same meaning. A value that cannot be decoded is kept. If a
// default is missing here, two templates with the same meaning compare as different; the opposite error is not
// possible.
func WithDefaults(template map[string]any) map[string]any {
	form, err := canonical(withoutPatch(template))
	if err != nil {
		return template
	}
	spec, ok := form["spec"].(map[string]any)
	if !ok {
		return form
	}
	absent(spec, map[string]any{
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": map[string]any{},
		"terminationGracePeriodSeconds": int64(30),
	})
	if account := spec["serviceAccountName"]; account != nil {
		absent(spec, map[string]any{"serviceAccount": account})
	} else if account := spec["serviceAccount"]; account != nil {
		absent(spec, map[string]any{"serviceAccountName": account})
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		each(spec, field, defaultContainer)
	}
	each(spec, "volumes", defaultVolume)
	return form
}

// equalWithDefaults reports whether two templates are the same after defaults are set in both.
func (k knowledge) equalWithDefaults(a, b map[string]any) bool {
	return a != nil && b != nil && k.equal(WithDefaults(a), WithDefaults(b), templateType())
}

// absent sets the fields that object does not have.
func absent(object, defaults map[string]any) {
	for key, value := range defaults {
		if object[key] == nil {
			object[key] = value
		}
	}
}

// each calls set for the objects in a list.
func each(object map[string]any, list string, set func(map[string]any)) {
	items, _ := object[list].([]any)
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			set(o)
		}
	}
}

// inside calls set for the object at field, if there is one.
func inside(object map[string]any, field string, set func(map[string]any)) {
	if o, ok := object[field].(map[string]any); ok {
		set(o)
	}
}

func defaultContainer(c map[string]any) {
	image, _ := c["image"].(string)
	absent(c, map[string]any{
		"imagePullPolicy": pullPolicy(image), "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
	})
	each(c, "ports", func(port map[string]any) { absent(port, map[string]any{"protocol": "TCP"}) })
	each(c, "env", func(env map[string]any) {
		inside(env, "valueFrom", func(from map[string]any) {
			defaultFieldRef(from)
			inside(from, "fileKeyRef", func(ref map[string]any) { absent(ref, map[string]any{"optional": false}) })
		})
	})
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		inside(c, probe, func(p map[string]any) {
			absent(p, map[string]any{"timeoutSeconds": int64(1), "periodSeconds": int64(10), "successThreshold": int64(1), "failureThreshold": int64(3)})
			defaultHandler(p)
		})
	}
	inside(c, "lifecycle", func(l map[string]any) {
		inside(l, "postStart", defaultHandler)
		inside(l, "preStop", defaultHandler)
	})
}

// pullPolicy returns the default pull policy of an image: Always for a tag that may move.
func pullPolicy(image string) string {
	name, _, digested := strings.Cut(image[strings.LastIndex(image, "/")+1:], "@")
	_, tag, tagged := strings.Cut(name, ":")
	if tag == "latest" || name != "" && !tagged && !digested {
		return "Always"
	}
	return "IfNotPresent"
}

func defaultHandler(h map[string]any) {
	inside(h, "httpGet", func(get map[string]any) { absent(get, map[string]any{"path": "/", "scheme": "HTTP"}) })
	inside(h, "grpc", func(call map[string]any) { absent(call, map[string]any{"service": ""}) })
}

func defaultFieldRef(of map[string]any) {
	inside(of, "fieldRef", func(ref map[string]any) { absent(ref, map[string]any{"apiVersion": "v1"}) })
}

func defaultVolume(v map[string]any) {
	const mode = int64(0o644)
	if len(v) == 1 && v["name"] != nil {
		v["emptyDir"] = map[string]any{}
	}
	items := func(source map[string]any) { each(source, "items", defaultFieldRef) }
	for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
		inside(v, source, func(s map[string]any) { absent(s, map[string]any{"defaultMode": mode}) })
	}
	inside(v, "downwardAPI", items)
	inside(v, "projected", func(p map[string]any) {
		each(p, "sources", func(source map[string]any) {
			inside(source, "downwardAPI", items)
			inside(source, "serviceAccountToken", func(token map[string]any) { absent(token, map[string]any{"expirationSeconds": int64(3600)}) })
		})
	})
	inside(v, "hostPath", func(path map[string]any) { absent(path, map[string]any{"type": ""}) })
	inside(v, "image", func(image map[string]any) {
		reference, _ := image["reference"].(string)
		absent(image, map[string]any{"pullPolicy": pullPolicy(reference)})
	})
}

// DataOfOpenKruise is Data as OpenKruise writes it: its types always write timestamps. OpenKruise compares bytes too.
func DataOfOpenKruise(template map[string]any) ([]byte, error) {
	form, err := canonical(withoutPatch(template))
	if err != nil {
		return nil, err
	}
	form["metadata"] = withTime(form["metadata"])
	inside(form, "spec", func(spec map[string]any) {
		each(spec, "volumes", func(volume map[string]any) {
			inside(volume, "ephemeral", func(source map[string]any) {
				inside(source, "volumeClaimTemplate", func(claim map[string]any) { claim["metadata"] = withTime(claim["metadata"]) })
			})
		})
	})
	return encode(form)
}

// withTime returns metadata with a creationTimestamp, which is null if it was absent.
func withTime(of any) map[string]any {
	metadata, _ := of.(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if _, there := metadata["creationTimestamp"]; !there {
		metadata["creationTimestamp"] = nil
	}
	return metadata
}
