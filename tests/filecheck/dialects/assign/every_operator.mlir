// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// The names of the table of scalar operators.
// CHECK-LABEL: assign.routine @unary {
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<f32>
// CHECK-NEXT:    assign.accum %x[] = id(relu(sat01(exp(log(exp2(log2(%x[]))))))) over ()
// CHECK-NEXT:    assign.accum %x[] = sin(cos(sqrt(recip(recip_sqrt(neg(tanh(%x[]))))))) over ()
// CHECK-NEXT:    assign.accum %x[] = abs(sign(floor(ceil(round(not(sigmoid(erf(%x[])))))))) over ()
// CHECK-NEXT:  }
assign.routine @unary {
  %x = assign.node "x" on_device : memref<f32>
  assign.accum %x[] = id(relu(sat01(exp(log(exp2(log2(%x[]))))))) over ()
  assign.accum %x[] = sin(cos(sqrt(recip(recip_sqrt(neg(tanh(%x[]))))))) over ()
  assign.accum %x[] = abs(sign(floor(ceil(round(not(sigmoid(erf(%x[])))))))) over ()
}

// CHECK-LABEL: assign.routine @binary {
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<f32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<f32>
// CHECK-NEXT:    assign.accum %x[] = fst(%x[], snd(%y[], add(%x[], sub(%y[], mul(%x[], div(%y[], 2.0)))))) over ()
// CHECK-NEXT:    assign.accum %x[] = pow(%x[], relu_gate(%y[], sat01_gate(%x[], mod(%y[], max(%x[], min(%y[], 2.0)))))) over ()
// CHECK-NEXT:    assign.accum %x[] = and(lt(%x[], le(%y[], 1.0)), or(eq(%x[], 1.0), ne(%y[], 1.0))) over ()
// CHECK-NEXT:  }
assign.routine @binary {
  %x = assign.node "x" on_device : memref<f32>
  %y = assign.node "y" on_device : memref<f32>
  assign.accum %x[] = fst(%x[], snd(%y[], add(%x[], sub(%y[], mul(%x[], div(%y[], 2.0)))))) over ()
  assign.accum %x[] = pow(%x[], relu_gate(%y[], sat01_gate(%x[], mod(%y[], max(%x[], min(%y[], 2.0)))))) over ()
  assign.accum %x[] = and(lt(%x[], le(%y[], 1.0)), or(eq(%x[], 1.0), ne(%y[], 1.0))) over ()
}

// CHECK-LABEL: assign.routine @ternary {
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<f32>
// CHECK-NEXT:    assign.accum %x[] = where(%x[], fma(%x[], 2.0, 1.0), mul3(%x[], %x[], 3.0)) over ()
// CHECK-NEXT:  }
assign.routine @ternary {
  %x = assign.node "x" on_device : memref<f32>
  assign.accum %x[] = where(%x[], fma(%x[], 2.0, 1.0), mul3(%x[], %x[], 3.0)) over ()
}

// CHECK-LABEL: assign.routine @accumulations {
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<f32>
// CHECK-NEXT:    assign.accum %x[] add= 1.0 over (i = 2)
// CHECK-NEXT:    assign.accum %x[] mul= 1.0 over (i = 2)
// CHECK-NEXT:    assign.accum %x[] or= 1.0 over (i = 2)
// CHECK-NEXT:    assign.accum %x[] and= 1.0 over (i = 2)
// CHECK-NEXT:    assign.accum %x[] max= 1.0 over (i = 2)
// CHECK-NEXT:    assign.accum %x[] min= 1.0 over (i = 2)
// CHECK-NEXT:  }
assign.routine @accumulations {
  %x = assign.node "x" on_device : memref<f32>
  assign.accum %x[] add= 1.0 over (i = 2)
  assign.accum %x[] mul= 1.0 over (i = 2)
  assign.accum %x[] or= 1.0 over (i = 2)
  assign.accum %x[] and= 1.0 over (i = 2)
  assign.accum %x[] max= 1.0 over (i = 2)
  assign.accum %x[] min= 1.0 over (i = 2)
}
