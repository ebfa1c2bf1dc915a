-- SPDX-License-Identifier: Apache-2.0

-- Health of a RolloutPolicy of Everynode, from its conditions Ready, Reconciling and Stalled.
local health = { status = "Progressing", message = "The manager has not observed the policy yet" }
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end

local is = {}
for _, condition in ipairs(status.conditions) do
  is[condition.type] = condition
  if condition.type == "Ready" then
    health.message = condition.message
  end
end

if is.Stalled ~= nil and is.Stalled.status == "True" then
  health.status = "Degraded"
  return health
end
if is.Ready ~= nil and is.Ready.status == "True" then
  health.status = "Healthy"
  return health
end
-- Not ready: a rollout that waits for a user is suspended, every other is progressing.
for _, set in ipairs(status.sets or {}) do
  if set.phase == "Suspended" or set.phase == "WaitingForApproval" then
    health.status = "Suspended"
  end
end
return health
