// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p split-stages | filecheck %s

// Two stages and three microbatches, by 1F1B: the first stage has two under way, the last one.
// CHECK-LABEL: texpr.routine @train.0 mesh (stage = 2)
// CHECK:         %w = texpr.param "w" stage 0
// CHECK:         %back_m0 = texpr.receive [[BACK:.*]] from 1 over "stage" : !texpr.tensor<2, f32>
// CHECK:         %h_m0 = texpr.apply [b] = mul(%w[], %x[b]) over (b = 2)
// CHECK:         %h_m1 = texpr.apply [b] = mul(%w[], %x[b + 2]) over (b = 2)
// CHECK:         %dw = texpr.apply [] add= %dw_part_m0[] over () then [] add= %dw_part_m1[] over () then [] add= %dw_part_m2[] over ()
// CHECK:         texpr.send %h_m0 as [[M0:.*]] to 1 over "stage"
// CHECK-NEXT:    texpr.send %h_m1 as [[M1:.*]] to 1 over "stage"
// CHECK-NEXT:    texpr.compute_part %dw 0
// CHECK-NEXT:    texpr.send %h_m2 as [[M2:.*]] to 1 over "stage"
// CHECK-NEXT:    texpr.compute_part %dw 1
// CHECK-NEXT:    texpr.compute_part %dw 2
// CHECK-NEXT:    texpr.assign %w[] = %dw[] over ()
// CHECK-NEXT:  }
// CHECK-LABEL: texpr.routine @train.1 mesh (stage = 2)
// CHECK:         %h_m0 = texpr.receive [[M0]] from 0 over "stage" : !texpr.tensor<2, f32>
// CHECK:         texpr.send %back_m0 as [[BACK]] to 0 over "stage"
// CHECK-NEXT:    texpr.compute_part %y 0
// CHECK-NEXT:    texpr.send %back_m1
// CHECK-NEXT:    texpr.compute_part %y 1
// CHECK-NEXT:    texpr.send %back_m2
// CHECK-NEXT:    texpr.compute_part %y 2
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @train indices (microbatch.rank = 3) mesh (stage = 2, microbatch = 3) {
  %x = texpr.data "x" : !texpr.tensor<6, f32>
  %w = texpr.param "w" stage 0 : !texpr.tensor<f32>
  %v = texpr.param "v" stage 1 : !texpr.tensor<f32>
  %h = texpr.apply [b] = mul(%w[], %x[b + 2*microbatch.rank]) over (b = 2) : !texpr.tensor<2, f32>
  %there = texpr.apply [b] = %h[b] over (b = 2) from stage 0 to 1 : !texpr.tensor<2, f32>
  %y_part = texpr.apply [] add= mul(%there[b], %v[]) over (b = 2) : !texpr.tensor<f32>
  %y = texpr.all_reduce %y_part add over "microbatch" : !texpr.tensor<f32>
  %back = texpr.apply [b] = mul(%there[b], %v[]) over (b = 2) : !texpr.tensor<2, f32>
  %here = texpr.apply [b] = %back[b] over (b = 2) from stage 1 to 0 : !texpr.tensor<2, f32>
  %dw_part = texpr.apply [] add= mul(%here[b], %h[b]) over (b = 2) : !texpr.tensor<f32>
  %dw = texpr.all_reduce %dw_part add over "microbatch" : !texpr.tensor<f32>
  texpr.forward %y
  texpr.assign %w[] = %dw[] over ()
}

// -----

// A parameter that another stage reads is sent to it once, before microbatches; a number that is read by both is in both.
// CHECK-LABEL: texpr.routine @tied.0 indices (i) mesh (stage = 2)
// CHECK:         texpr.send %w as [[W:.*]] to 1 over "stage"
// CHECK-NOT:     texpr.send
// CHECK-LABEL: texpr.routine @tied.1 indices (i) mesh (stage = 2)
// CHECK:         %w = texpr.receive [[W]] from 0 over "stage" : !texpr.tensor<2, f32>
// CHECK:         %n = texpr.embed i : !texpr.tensor<f32>
texpr.routine @tied indices (i, microbatch.rank = 2) mesh (stage = 2, microbatch = 2) {
  %x = texpr.data "x" : !texpr.tensor<6, f32>
  %w = texpr.param "w" stage 0 : !texpr.tensor<2, f32>
  %n = texpr.embed i : !texpr.tensor<f32>
  %there = texpr.apply [o] = %w[o] over (o = 2) from stage 0 to 1 : !texpr.tensor<2, f32>
  %y_part = texpr.apply [o] add= mul(mul(%there[o], %x[b + 3*microbatch.rank]), %n[]) over (b = 3, o = 2) : !texpr.tensor<2, f32>
  %y = texpr.all_reduce %y_part add over "microbatch" : !texpr.tensor<2, f32>
  texpr.forward %y
}

// -----

// Without stages, microbatches are summed one after the other in one routine.
// CHECK-LABEL: texpr.routine @accumulated {
// CHECK:         texpr.compute_part %y 0
// CHECK-NEXT:    texpr.compute_part %y 1
// CHECK-NEXT:    texpr.forward %y
texpr.routine @accumulated indices (microbatch.rank = 2) mesh (microbatch = 2) {
  %x = texpr.data "x" : !texpr.tensor<6, f32>
  %w = texpr.param "w" : !texpr.tensor<f32>
  %y_part = texpr.apply [] add= mul(%w[], %x[b + 3*microbatch.rank]) over (b = 3) : !texpr.tensor<f32>
  %y = texpr.all_reduce %y_part add over "microbatch" : !texpr.tensor<f32>
  texpr.forward %y
}

// -----

texpr.routine @normalized indices (microbatch.rank = 2) mesh (stage = 2, microbatch = 2) {
  %x = texpr.data "x" : !texpr.tensor<6, f32>
  %w = texpr.param "w" stage 0 : !texpr.tensor<f32>
  %sum_part = texpr.apply [] add= mul(%w[], %x[b + 3*microbatch.rank]) over (b = 3) : !texpr.tensor<f32>
  %sum = texpr.all_reduce %sum_part add over "microbatch" : !texpr.tensor<f32>
  // expected-error@+1 {{`y` needs all microbatches, which are computed one after the other}}
  %y = texpr.apply [] add= mul(%sum[], %x[b + 3*microbatch.rank]) over (b = 3) : !texpr.tensor<f32>
}

// -----

texpr.routine @again indices (microbatch.rank = 2) mesh (stage = 2, microbatch = 2) {
  %x = texpr.data "x" : !texpr.tensor<6, f32>
  %w = texpr.param "w" stage 1 : !texpr.tensor<f32>
  %h = texpr.apply [b] = mul(%w[], %x[b + 3*microbatch.rank]) over (b = 3) : !texpr.tensor<3, f32>
  %back = texpr.apply [b] = %h[b] over (b = 3) from stage 1 to 0 : !texpr.tensor<3, f32>
  // expected-error@+1 {{microbatches go forward and backward through the stages once, and this again}}
  %there = texpr.apply [b] = %back[b] over (b = 3) from stage 0 to 1 : !texpr.tensor<3, f32>
}
