"""The Ray side: connecting, actor pools behind `Env`, and the one adapter from stages to Ray Data."""
