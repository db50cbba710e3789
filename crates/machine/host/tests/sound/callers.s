# Source of fuzz/seeds/program-code/callers, with the forms of rules in .eh_frame:
#
#     as -o callers.o callers.s
#     ld -shared --build-id=none --hash-style=gnu -z noseparate-code -z norelro -s -o callers callers.o
	.text
	.globl begin, outer, inner
	.type begin, @function
	.type outer, @function
	.type inner, @function
begin:	.cfi_startproc
	.cfi_undefined rip
	call outer
	hlt
	.cfi_endproc
	.size begin, .-begin
outer:	.cfi_startproc
	push %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	mov %rsp, %rbp
	.cfi_def_cfa_register rbp
	sub $32, %rsp
	call inner
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size outer, .-outer
inner:	.cfi_startproc
	sub $24, %rsp
	.cfi_adjust_cfa_offset 24
	mov $1, %ebp
	nop
	add $24, %rsp
	.cfi_adjust_cfa_offset -24
	# The frame is the word at rsp + 16, and rbp was saved at rsp + 8.
	.cfi_escape 0x0f, 3, 0x77, 16, 0x06
	.cfi_escape 0x10, 6, 2, 0x77, 8
	nop
	# A loop without an end: DW_OP_lit0, DW_OP_skip -3.
	.cfi_escape 0x0f, 4, 0x30, 0x2f, 0xfd, 0xff
	nop
	ret
	.cfi_endproc
	.size inner, .-inner
