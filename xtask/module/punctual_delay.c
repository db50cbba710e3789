// SPDX-License-Identifier: GPL-2.0
/*
 * Delays the threads of a CPU for a given time: the ground truth for tests of
 * `explain` in the emulated machine.
 *
 * Writing "irqs 3000" or "preempt 3000" to /proc/punctual_delay keeps the
 * writer's CPU busy for 3000 us with interrupts, or only preemption, disabled.
 */
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* The longest accepted delay. A longer one is an error in the test. */
#define LONGEST_US 100000u

static noinline void punctual_keeps_interrupts_off(unsigned int us)
{
	unsigned long flags;

	local_irq_save(flags);
	while (us >= 1000) {
		udelay(1000);
		us -= 1000;
	}
	udelay(us);
	local_irq_restore(flags);
}

static noinline void punctual_keeps_preemption_off(unsigned int us)
{
	preempt_disable();
	while (us >= 1000) {
		udelay(1000);
		us -= 1000;
	}
	udelay(us);
	preempt_enable();
}

static ssize_t delay_write(struct file *file, const char __user *from,
			   size_t length, loff_t *at)
{
	char text[32], what[8];
	unsigned int us;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = '\0';
	if (sscanf(text, "%7s %u", what, &us) != 2 || us > LONGEST_US)
		return -EINVAL;
	if (!strcmp(what, "irqs"))
		punctual_keeps_interrupts_off(us);
	else if (!strcmp(what, "preempt"))
		punctual_keeps_preemption_off(us);
	else
		return -EINVAL;
	return length;
}

static const struct proc_ops delay_ops = {
	.proc_write = delay_write,
};

static int __init delay_start(void)
{
	return proc_create("punctual_delay", 0200, NULL, &delay_ops) ? 0 : -ENOMEM;
}

static void __exit delay_end(void)
{
	remove_proc_entry("punctual_delay", NULL);
}

module_init(delay_start);
module_exit(delay_end);
MODULE_DESCRIPTION("Keeps a CPU from its threads for a given time");
MODULE_LICENSE("GPL");
