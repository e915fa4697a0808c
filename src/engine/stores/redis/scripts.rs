//! What the nodes carry out as a whole.

/// Changes keys if they are as they were read. For each key there are four arguments: whether it must be absent (`a`) or
/// have (`h`) the second, and whether it is removed (`d`) or set (`s`) to the fourth. Returns whether it was done.
pub(super) const COMMIT: &str = "\
for i, key in ipairs(KEYS) do
  local check = ARGV[i * 4 - 3]
  if check ~= '' then
    local value = redis.call('GET', key)
    if check == 'a' then
      if value then return 0 end
    elseif value ~= ARGV[i * 4 - 2] then
      return 0
    end
  end
end
for i, key in ipairs(KEYS) do
  local change = ARGV[i * 4 - 1]
  if change == 's' then
    redis.call('SET', key, ARGV[i * 4])
  elseif change == 'd' then
    redis.call('DEL', key)
  end
end
return 1";

/// All keys of a slot, that of the script's key.
pub(super) const LIST: &str = "\
local count = redis.call('CLUSTER', 'COUNTKEYSINSLOT', ARGV[1])
return redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[1], count)";
