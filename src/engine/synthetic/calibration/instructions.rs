//! Known numbers of instructions, in assembly: a compiler may choose any number for other code.

/// Returns the reason why this kind of processor has no loop of a known number of instructions, or `None` if it has one.
pub fn unavailable() -> Option<String> {
    let is_known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    (!is_known).then(|| format!("{} has no loop of a known number of instructions", std::env::consts::ARCH))
}

/// Executes `count` instructions, an even number, and a few more before and after them: a loop of two instructions.
#[expect(unsafe_code, reason = "only assembly has a known number of instructions")]
pub(super) fn execute(count: u64) {
    let passes = count / 2;
    if passes == 0 {
        return;
    }
    // SAFETY: the loop changes one register, which it names, and the flags, and uses no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2:", "dec {left}", "jnz 2b", left = inout(reg) passes => _, options(nomem, nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2:", "subs {left}, {left}, #1", "b.ne 2b", left = inout(reg) passes => _, options(nomem, nostack));
    }
}
