// SPDX-License-Identifier: Apache-2.0

package rollout

// String returns the name of a fit.
func (f Fit) String() string {
	switch f {
	case MustRun:
		return "must-run"
	case MayStay:
		return "may-stay"
	case MustLeave:
		return "must-leave"
	default:
		return "not-known"
	}
}

// String returns the name of a strategy as the API spells it.
func (s Strategy) String() string {
	switch s {
	case RollingUpdate:
		return "RollingUpdate"
	case OnDelete:
		return "OnDelete"
	default:
		return "unknown"
	}
}

// String returns the name of a phase as the API spells it.
func (p Phase) String() string {
	switch p {
	case Running:
		return "Running"
	case Succeeded:
		return "Succeeded"
	case Failed:
		return "Failed"
	default:
		return "Pending"
	}
}

// String returns the name of a state of the preDelete hook.
func (h Hook) String() string {
	switch h {
	case HookArmed:
		return "armed"
	case HookWaiting:
		return "waiting"
	case HookReleased:
		return "released"
	default:
		return "none"
	}
}

// String returns the name of a phase of a change in place.
func (p InPlace) String() string {
	switch p {
	case InPlaceMarked:
		return "marked"
	case InPlacePatched:
		return "patched"
	case InPlaceArrived:
		return "arrived"
	case InPlaceAnnounced:
		return "announced"
	default:
		return "none"
	}
}

// String returns the name of a kind of action.
func (k ActionKind) String() string {
	switch k {
	case Create:
		return "create"
	case Delete:
		return "delete"
	case Prepare:
		return "prepare"
	case Restore:
		return "restore"
	case Mark:
		return "mark"
	case Patch:
		return "patch"
	case Unmark:
		return "unmark"
	case Resume:
		return "resume"
	default:
		return "unknown"
	}
}

// String returns the name of a kind of note.
func (k NoteKind) String() string {
	switch k {
	case FoundFailedPod:
		return "found-failed-pod"
	case FoundSucceededPod:
		return "found-succeeded-pod"
	default:
		return "unknown"
	}
}
