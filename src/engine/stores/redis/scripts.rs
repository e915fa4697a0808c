//! Lua scripts, which a node executes atomically.

/// Script that writes keys if the values that were read are unchanged. Returns 1 if they are unchanged, also if there
/// is nothing to write; otherwise 0, and then it has written nothing. Each key has four arguments: a check (`a`: the
/// key must be absent; `h`: it must have the value of the second argument; empty: none), that value, a change (`d`:
/// delete; `s`: set to the fourth argument; empty: none), and that value.
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

/// Script that returns all stored keys of the hash slot `ARGV[1]`. The script's key `KEYS[1]` routes it to the node of
/// the slot.
pub(super) const LIST_SLOT: &str = "\
local count = redis.call('CLUSTER', 'COUNTKEYSINSLOT', ARGV[1])
return redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[1], count)";
