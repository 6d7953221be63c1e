// RUN: ocannl-opt %s -p infer-shapes,infer-precisions,infer-projections,differentiate,lower-texpr-to-assign | filecheck %s --check-prefix ASSIGN
// RUN: ocannl-opt %s -p cpu | filecheck %s --check-prefix LOOPS
// RUN: ocannl-opt %s -p cpu -t llvm | filecheck %s --check-prefix LLVM
// RUN: ocannl-opt %s -p cpu --print-between-passes | filecheck %s --check-prefix PASSES

// The pipeline can be stopped and continued from its text at any level.
// RUN: ocannl-opt %s -p infer-shapes,infer-precisions | ocannl-opt -p infer-projections,differentiate \
// RUN:   | ocannl-opt -p lower-texpr-to-assign | ocannl-opt -p cpu | filecheck %s --check-prefix LOOPS

// Other tools of xDSL know the passes.
// RUN: xdsl-opt %s -p infer-shapes,infer-precisions,infer-projections,differentiate,lower-texpr-to-assign | filecheck %s --check-prefix ASSIGN

// One step of training, with the shape of no parameter given in full.
texpr.routine @step indices (step_n, batch_n = 8) {
  %x = texpr.data "x" : !texpr.tensor<8, 10 | 2, f32>
  %t = texpr.data "t" : !texpr.tensor<8, 10 | 1, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<...i0 -> ...o1>
  %b1 = texpr.param "b1" : !texpr.tensor<16>
  %w2 = texpr.param "w2" : !texpr.tensor<...i2 -> 1>
  %xs = texpr.slice %x at batch_n : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %ts = texpr.slice %t at batch_n : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %p1 = texpr.apply add= mul(%w1, %xs) logic "@" : !texpr.tensor<...b9 | ...i10 -> ...o11>
  %s1 = texpr.apply = add(%p1, %b1) logic "." : !texpr.tensor<...b12 | ...i13 -> ...o14>
  %h1 = texpr.apply = relu(%s1) logic "." : !texpr.tensor<...b15 | ...i16 -> ...o17>
  %y = texpr.apply add= mul(%w2, %h1) logic "@" : !texpr.tensor<...b18 | ...i19 -> ...o20>
  %e = texpr.apply = sub(%y, %ts) logic "." : !texpr.tensor<...b21 | ...i22 -> ...o23>
  %q = texpr.apply = mul(%e, %e) logic "." : !texpr.tensor<...b24 | ...i25 -> ...o26>
  %loss = texpr.apply add= %q logic "... | ... -> ... => 0" : !texpr.tensor<...b27 | ...i28 -> ...o29>
  %loss_grad = texpr.grad %loss : !texpr.tensor<...b27 | ...i28 -> ...o29>
  %one = texpr.constant 1.0 : !texpr.tensor<...b30 | ...i31 -> ...o32>
  %rate = texpr.constant -0.1 : !texpr.tensor<...b33 | ...i34 -> ...o35>
  texpr.comment "gradients"
  texpr.forward %loss
  texpr.zero_grads %loss
  texpr.assign %loss_grad = %one logic "."
  texpr.backprop %loss
  texpr.comment "update"
  %w1_grad = texpr.grad %w1 : !texpr.tensor<...i0 -> ...o1>
  %w1_delta = texpr.apply = mul(%w1_grad, %rate) logic "." : !texpr.tensor<...b36 | ...i37 -> ...o38>
  texpr.assign %w1 add= %w1_delta logic "."
  %b1_grad = texpr.grad %b1 : !texpr.tensor<16>
  %b1_delta = texpr.apply = mul(%b1_grad, %rate) logic "." : !texpr.tensor<...b39 | ...i40 -> ...o41>
  texpr.assign %b1 add= %b1_delta logic "."
  %w2_grad = texpr.grad %w2 : !texpr.tensor<...i2 -> 1>
  %w2_delta = texpr.apply = mul(%w2_grad, %rate) logic "." : !texpr.tensor<...b42 | ...i43 -> ...o44>
  texpr.assign %w2 add= %w2_delta logic "."
}

// ASSIGN-LABEL: assign.routine @step indices (step_n, batch_n = 8) {
// ASSIGN-NEXT:    %x = assign.node "x" constant because "data" : memref<8x10x2xf32>
// ASSIGN-NEXT:    %t = assign.node "t" constant because "data" : memref<8x10x1xf32>
// ASSIGN-NEXT:    %w1 = assign.node "w1" on_device because "parameter" : memref<16x2xf32>
// ASSIGN-NEXT:    %w1_grad = assign.node "w1.grad" on_device because "gradient" : memref<16x2xf32>
// ASSIGN-NEXT:    %b1 = assign.node "b1" on_device because "parameter" : memref<16xf32>
// ASSIGN-NEXT:    %b1_grad = assign.node "b1.grad" on_device because "gradient" : memref<16xf32>
// ASSIGN-NEXT:    %w2 = assign.node "w2" on_device because "parameter" : memref<1x16xf32>
// ASSIGN-NEXT:    %w2_grad = assign.node "w2.grad" on_device because "gradient" : memref<1x16xf32>
// ASSIGN-NEXT:    %loss = assign.node "loss" on_device because "computed by forward" : memref<1xf32>
// ASSIGN-NEXT:    %loss_grad = assign.node "loss.grad" on_device because "gradient" : memref<1xf32>
// ASSIGN:    assign.comment "gradients"
// ASSIGN-NEXT:    assign.accum %xs[b, o] := %x[batch_n, b, o] over (b = 10, o = 2)
// ASSIGN-NEXT:    assign.accum %p1[b, o] :add= mul(%w1[o, k], %xs[b, k]) over (b = 10, o = 16, k = 2)
// ASSIGN-NEXT:    assign.accum %s1[b, o] := add(%p1[b, o], %b1[o]) over (b = 10, o = 16)
// ASSIGN-NEXT:    assign.accum %h1[b, o] := relu(%s1[b, o]) over (b = 10, o = 16)
// ASSIGN-NEXT:    assign.accum %y[b, 0] :add= mul(%w2[0, k], %h1[b, k]) over (b = 10, k = 16)
// ASSIGN-NEXT:    assign.accum %ts[b, 0] := %t[batch_n, b, 0] over (b = 10)
// ASSIGN-NEXT:    assign.accum %e[b, 0] := sub(%y[b, 0], %ts[b, 0]) over (b = 10)
// ASSIGN-NEXT:    assign.accum %q[b, 0] := mul(%e[b, 0], %e[b, 0]) over (b = 10)
// ASSIGN-NEXT:    assign.accum %loss[0] :add= %q[b, 0] over (b = 10)
// ASSIGN-NEXT:    assign.accum %w1_grad[o, i] = 0.0 over (o = 16, i = 2)
// ASSIGN-NEXT:    assign.accum %b1_grad[o] = 0.0 over (o = 16)
// ASSIGN-NEXT:    assign.accum %w2_grad[0, i] = 0.0 over (i = 16)
// ASSIGN-NEXT:    assign.accum %loss_grad[0] = 0.0 over ()
// ASSIGN-NEXT:    assign.accum %loss_grad[0] = 1.0 over ()
// ASSIGN-NEXT:    assign.accum %q_grad[b, 0] := %loss_grad[0] over (b = 10)
// ASSIGN-NEXT:    assign.accum %e_grad[b, 0] := mul(%q_grad[b, 0], %e[b, 0]) over (b = 10)
// ASSIGN-NEXT:    assign.accum %e_grad_1[b, 0] := mul(%q_grad[b, 0], %e[b, 0]) over (b = 10)
// ASSIGN-NEXT:    assign.accum %0[b, 0] := add(%e_grad[b, 0], %e_grad_1[b, 0]) over (b = 10)
// ASSIGN-NEXT:    assign.accum %y_grad[b, 0] := %0[b, 0] over (b = 10)
// ASSIGN-NEXT:    assign.accum %h1_grad[b, k] := mul(%y_grad[b, 0], %w2[0, k]) over (b = 10, k = 16)
// ASSIGN-NEXT:    assign.accum %s1_grad[b, o] := relu_gate(%h1[b, o], %h1_grad[b, o]) over (b = 10, o = 16)
// ASSIGN-NEXT:    assign.accum %p1_grad[b, o] := %s1_grad[b, o] over (b = 10, o = 16)
// ASSIGN-NEXT:    assign.accum %w1_grad_1[o, k] :add= mul(%p1_grad[b, o], %xs[b, k]) over (b = 10, o = 16, k = 2)
// ASSIGN-NEXT:    assign.accum %w1_grad[o, i] add= %w1_grad_1[o, i] over (o = 16, i = 2)
// ASSIGN-NEXT:    assign.accum %b1_grad_1[o] :add= %s1_grad[b, o] over (b = 10, o = 16)
// ASSIGN-NEXT:    assign.accum %b1_grad[o] add= %b1_grad_1[o] over (o = 16)
// ASSIGN-NEXT:    assign.accum %w2_grad_1[0, k] :add= mul(%y_grad[b, 0], %h1[b, k]) over (b = 10, k = 16)
// ASSIGN-NEXT:    assign.accum %w2_grad[0, i] add= %w2_grad_1[0, i] over (i = 16)
// ASSIGN-NEXT:    assign.comment "update"
// ASSIGN-NEXT:    assign.accum %w1_delta[o, i] := mul(%w1_grad[o, i], -0.1) over (o = 16, i = 2)
// ASSIGN-NEXT:    assign.accum %w1[o, i] add= %w1_delta[o, i] over (o = 16, i = 2)
// ASSIGN-NEXT:    assign.accum %b1_delta[o] := mul(%b1_grad[o], -0.1) over (o = 16)
// ASSIGN-NEXT:    assign.accum %b1[o] add= %b1_delta[o] over (o = 16)
// ASSIGN-NEXT:    assign.accum %w2_delta[0, i] := mul(%w2_grad[0, i], -0.1) over (i = 16)
// ASSIGN-NEXT:    assign.accum %w2[0, i] add= %w2_delta[0, i] over (i = 16)
// ASSIGN-NEXT:    }

// Of the arrays between parameters and gradients few are left, and their nests are fused and scheduled.
// LOOPS-LABEL: loops.func @step indices (step_n, batch_n = 8) attributes {arena = {{[0-9]+}} : i64} {
// LOOPS:         %p1 = assign.node "p1" virtual
// LOOPS:         %h1 = assign.node "h1" local at {{[0-9]+}}
// LOOPS:         %y = assign.node "y" virtual
// LOOPS:         loops.nest {{.*}} (b = 10, o = 16) schedule <{{.*}}lanes = o : {{[0-9]+}}>
// LOOPS-NOT:     math.exp
// LOOPS:         loops.store %{{.*}}, %loss[0]
// LOOPS:         loops.store %{{.*}}, %w1[o, i]
// LOOPS:         loops.store %{{.*}}, %b1[i]
// LOOPS:         loops.store %{{.*}}, %w2[0, i]

// One function is seen from outside.
// LLVM:     define void @"routine step"(ptr %args)
// LLVM-NOT: define void

// PASSES:      // IR after infer-shapes:
// PASSES:      // IR after infer-precisions:
// PASSES:      // IR after infer-projections:
// PASSES:      // IR after differentiate:
// PASSES:      // IR after lower-texpr-to-assign:
// PASSES:      // IR after lower-assign-to-loops:
// PASSES:      loops.func @step
