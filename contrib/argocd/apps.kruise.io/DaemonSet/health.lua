-- SPDX-License-Identifier: Apache-2.0

-- Health of an Advanced DaemonSet that Everynode manages, from its conditions Ready, Reconciling and Stalled.
local health = { status = "Progressing", message = "The manager has not observed the daemon set yet" }
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
elseif is.Ready ~= nil and is.Ready.status == "True" then
  health.status = "Healthy"
  -- Ready with an update that is paused: what was asked for, but not complete.
  if is.Ready.reason == "Held" and is.Paused ~= nil and is.Paused.status == "True" then
    health.status = "Suspended"
  end
end
return health
