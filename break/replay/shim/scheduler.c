/* Picks the next thread and switches to it.
 *
 * Uses: clock, random. */
#include "scheduler.h"

#include "clock.h"
#include "random.h"

#include <asm/prctl.h>
#include <pthread.h>
#include <sys/auxv.h>

#define IDLE_CALLS 256 /* in a row: then the server only polls */
#define IDLE_NS 1000000

struct turn turns[TURNS] = { [0] = { .used = true, .deadline_ns = NEVER } };
struct turn *turn_current = &turns[0];
unsigned turns_begun = 1;

static uint64_t seed; /* 0: round robin */
static unsigned idle;

/* turn_switch(&left, stack, thread, has_fsgsbase): leaves this stack and continues where the other was suspended. Saves
 * what a function must preserve: six registers and the control words of both floating point units. */
__asm__(".text\n"
        ".hidden turn_switch\n"
        ".globl turn_switch\n"
        ".type turn_switch, @function\n"
        "turn_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    sub $8, %rsp\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    test %ecx, %ecx\n"
        "    jz 1f\n"
        "    wrfsbase %rdx\n"
        "    jmp 2f\n"
        "1:  mov $158, %eax\n" /* arch_prctl(ARCH_SET_FS, thread) */
        "    mov $0x1002, %edi\n"
        "    mov %rdx, %rsi\n"
        "    syscall\n"
        "2:  ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    add $8, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size turn_switch, .-turn_switch\n");
void turn_switch(void **left, void *stack, uintptr_t thread, int has_fsgsbase);

_Static_assert(SYS_arch_prctl == 158 && ARCH_SET_FS == 0x1002, "the numbers in turn_switch");

void turn_capture(struct turn *turn, void (*first)(void))
{
    uint32_t mxcsr;
    uint16_t x87;
    __asm__("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(x87));
    /* far enough below the frames that this kernel thread still uses; `first` needs the alignment of a call */
    uintptr_t *stack = (uintptr_t *)(((uintptr_t)__builtin_frame_address(0) - 4096) & ~(uintptr_t)15);
    *--stack = 0; /* no return address */
    *--stack = (uintptr_t)first;
    for (int callee_saved = 0; callee_saved < 6; callee_saved++)
        *--stack = 0;
    *--stack = mxcsr | (uintptr_t)x87 << 32;
    turn->stack = stack;
    turn->thread = (uintptr_t)pthread_self();
    turn->owner = (pid_t)kernel(SYS_gettid);
}

void turn_begin(void)
{
    turns[0].thread = (uintptr_t)pthread_self();
    turns[0].owner = (pid_t)kernel(SYS_gettid);
}

static void turn_go(struct turn *next)
{
    static int fsgsbase = -1;
    if (fsgsbase < 0)
        fsgsbase = getauxval(AT_HWCAP2) >> 1 & 1;
    struct turn *left = turn_current;
    if (next == left)
        return;
    turn_current = next;
    turn_switch(&left->stack, next->stack, next->thread, fsgsbase);
}

static bool can_run(struct turn *turn)
{
    if (!turn->used || turn->done)
        return false;
    turn->in_time = turn->waiting == FOR_NOTHING || turn->ready(turn->thing);
    return turn->in_time || turn->deadline_ns <= clock_now_ns();
}

/* The next thread after the current one, or a random one. NULL: all wait. */
static struct turn *turn_next(void)
{
    struct turn *next = NULL;
    uint64_t candidates = 0;
    unsigned at = turn_current - turns;
    for (unsigned i = 1; i <= turns_begun; i++) {
        struct turn *turn = &turns[(at + i) % turns_begun];
        if (!can_run(turn))
            continue;
        if (!seed)
            return turn;
        /* uniform among all candidates, in one pass */
        if (random_next(&seed) % ++candidates == 0)
            next = turn;
    }
    return next;
}

static void turn_pass(void)
{
    struct turn *next;
    while (!(next = turn_next()))
        scheduler_idle();
    turn_go(next);
}

bool turn_wait(enum waiting waiting, bool (*ready)(const void *), const void *thing, int64_t deadline_ns)
{
    if (ready(thing))
        return true;
    struct turn *me = turn_current;
    me->waiting = waiting;
    me->ready = ready;
    me->thing = thing;
    me->deadline_ns = deadline_ns;
    idle = 0;
    turn_pass();
    me->waiting = FOR_NOTHING;
    me->deadline_ns = NEVER;
    return me->in_time;
}

_Noreturn void turn_end(void)
{
    turn_current->done = true;
    turn_pass();
    __builtin_unreachable(); /* a finished turn is never resumed */
}

void turn_yield(void)
{
    turn_pass();
}

void turn_offer(void)
{
    if (seed)
        turn_yield();
}

void turn_idle(void)
{
    if (++idle >= IDLE_CALLS)
        turn_wait(FOR_INPUT, turn_not, NULL, clock_now_ns() + IDLE_NS);
}

void turn_busy(void)
{
    idle = 0;
}

void turn_seed(uint64_t given)
{
    seed = given;
}

bool turn_any(enum waiting waiting)
{
    for (const struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && !turn->done && turn->waiting == waiting)
            return true;
    return false;
}

int64_t turn_deadline_ns(void)
{
    int64_t earliest = NEVER;
    for (const struct turn *turn = turns; turn < turns + turns_begun; turn++)
        if (turn->used && !turn->done && turn->waiting != FOR_NOTHING && turn->deadline_ns < earliest)
            earliest = turn->deadline_ns;
    return earliest;
}

bool turn_not(const void *nothing)
{
    (void)nothing;
    return false;
}
