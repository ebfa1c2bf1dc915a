-- SPDX-License-Identifier: Apache-2.0

-- Health of an ImagePullJob that Everynode runs, from its conditions Ready, Reconciling and Stalled.
local health = { status = "Progressing", message = "The manager has not observed the job yet" }
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end

for _, condition in ipairs(status.conditions) do
  if condition.status == "True" then
    health.message = condition.message
    if condition.type == "Stalled" then
      health.status = "Degraded"
    elseif condition.type == "Ready" and condition.reason == "Paused" then
      health.status = "Suspended"
    elseif condition.type == "Ready" then
      health.status = "Healthy"
    end
  end
end
return health
